//! A repository, and its refs, read from the files (section 5).

use crate::base::{Id, from_hex};
use crate::event::{is_name, is_part};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The largest packed-refs and shallow.
const MAX_GIT_FILE: u64 = 256 << 20;

/// The folder of the repository that PATH is.
pub fn find_repository(path: &Path) -> Option<PathBuf> {
    let candidates = [path.to_path_buf(), path.join(".git")];
    let found = candidates.into_iter().find(|path| path.join("HEAD").is_file() && path.join("objects").is_dir())?;
    (!found.join("reftable").is_dir()).then_some(found)
}

/// The refs that name a line (None: holds no id), and the number of foreign refs.
pub fn read_refs(repository: &Path) -> io::Result<(BTreeMap<String, Option<Id>>, u64)> {
    let (mut lines, mut foreign) = (BTreeMap::new(), 0);
    for (raw, id) in all_refs(repository)? {
        let name = String::from_utf8_lossy(&raw);
        match name.split('/').collect::<Vec<_>>()[..] {
            ["refs", "remotes", _, "HEAD"] => {}
            // A remote is called by a name, too, but as it stands.
            ["refs", "heads", session, branch] | ["refs", "remotes", _, session, branch]
                if is_part(session)
                    && is_part(branch)
                    && (name.starts_with("refs/heads/")
                        || name.split('/').nth(2).is_some_and(|remote| is_name(remote, 200)))
                    && name.as_bytes() == raw =>
            {
                lines.insert(name.into_owned(), id);
            }
            _ => foreign += 1,
        }
    }
    Ok((lines, foreign))
}

/// What is under refs/heads and refs/remotes, by full name.
fn all_refs(repository: &Path) -> io::Result<BTreeMap<Vec<u8>, Option<Id>>> {
    let mut all = BTreeMap::new();
    for line in read_regular(&repository.join("packed-refs"))?.split(|byte| *byte == b'\n') {
        if let Some((digits, [b' ', name @ ..])) = line.split_at_checked(40)
            && let Some(id) = from_hex(digits)
            && (name.starts_with(b"refs/heads/") || name.starts_with(b"refs/remotes/"))
        {
            all.insert(name.to_vec(), Some(id));
        }
    }
    let is_folder = |path: &str| fs::symlink_metadata(repository.join(path)).is_ok_and(|found| found.is_dir());
    let tops = ["refs/heads", "refs/remotes"].into_iter().filter(|name| is_folder("refs") && is_folder(name));
    let mut folders: Vec<_> = tops.map(|name| (repository.join(name), name.as_bytes().to_vec())).collect();
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = [&prefix[..], b"/", &entry.file_name().into_vec()].concat();
            // The type of the entry itself: links are not followed.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push((entry.path(), name));
            } else if !name.ends_with(b".lock") {
                all.insert(name, if kind.is_file() { read_ref(&entry.path())? } else { None });
            }
        }
    }
    Ok(all)
}

/// The id in the file of a ref: exactly 40 digits and a newline.
fn read_ref(path: &Path) -> io::Result<Option<Id>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(42).read_to_end(&mut bytes)?;
    Ok(bytes.strip_suffix(b"\n").and_then(from_hex))
}

/// The bytes of a regular file; nothing for anything else, such as a pipe that would never end.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() > MAX_GIT_FILE => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(found) if found.is_file() => fs::read(path),
        _ => Ok(Vec::new()),
    }
}
