//! A git repository: its objects, read with one `git cat-file` (section 4), and its refs, read from the files (section 5).

use crate::event::decode;
use crate::sign::{finish, object_hash};
use crate::{Code, Id, from_hex, hex};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::take;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A kind of object, and the code of one that is larger than its limit.
pub struct Kind {
    pub name: &'static str,
    limit: u64,
    too_large: Code,
}

pub const COMMIT: Kind = Kind { name: "commit", limit: 64 << 10, too_large: "bad-commit" };
pub const TREE: Kind = Kind { name: "tree", limit: 16 << 20, too_large: "bad-tree" };
pub const EVENT: Kind = Kind { name: "blob", limit: 16 << 20, too_large: "bad-member" };
pub const SIDE_FILE: Kind = Kind { name: "blob", limit: u64::MAX, too_large: "" };

const NO_FAULT: Code = "";

/// A larger file of refs is not read: it would not fit into memory.
const MAX_REFS: u64 = 1 << 30;

/// The objects of a repository. What is asked for is answered in order, after `flush`.
pub struct Git {
    path: PathBuf,
    running: Option<Running>,
    waiting: VecDeque<Id>,
    /// Requests of the group that is being made. git reads all of a group before it answers, so neither waits for the other.
    requests: String,
    /// An id that no repository can contain, as nobody could know it; and git's answer. It ends each group.
    end: String,
    end_answer: Vec<u8>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<Output>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What git prints. It is at its end when the last thing that came is the end of a group: git then waits for requests, and
/// an answer that is shorter than it says would be waited for for ever.
struct Output {
    pipe: ChildStdout,
    tail: Vec<u8>,
    end_answer: Vec<u8>,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tail == self.end_answer {
            return Ok(0);
        }
        let length = self.pipe.read(buffer)?;
        self.tail.extend(&buffer[length.saturating_sub(self.end_answer.len())..length]);
        self.tail.drain(..self.tail.len().saturating_sub(self.end_answer.len()));
        Ok(length)
    }
}

impl Git {
    pub fn open(path: PathBuf) -> io::Result<Git> {
        let mut id: Id = [0; 20];
        SystemRandom::new().fill(&mut id).map_err(|_| io::ErrorKind::Other)?;
        let end = hex(&id);
        let end_answer = format!("{end} missing\n").into_bytes();
        let running = Some(start(&path, &end_answer)?);
        Ok(Git { path, running, waiting: VecDeque::new(), requests: String::new(), end, end_answer })
    }

    pub fn ask(&mut self, id: &Id) {
        self.waiting.push_back(*id);
        self.requests.push_str("contents ");
        self.requests.push_str(&hex(id));
        self.requests.push('\n');
    }

    /// Sends the group, if it is one.
    pub fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let requests = format!("{}contents {}\nflush\n", take(&mut self.requests), self.end);
        if self.running.is_none() {
            self.running = start(&self.path, &self.end_answer).ok();
        }
        if let Some(running) = &mut self.running {
            running.output.get_mut().tail.clear();
            // If git has ended, the missing answer shows it.
            let _ = running.input.write_all(requests.as_bytes());
        }
    }

    /// Asks for one object when nothing else is waiting.
    pub fn object(&mut self, id: &Id, kind: &Kind, bytes: &mut Vec<u8>) -> Result<(), Code> {
        self.ask(id);
        self.flush();
        self.answer(kind, bytes)
    }

    /// The bytes of the object that was asked for first, if it is good.
    pub fn answer(&mut self, kind: &Kind, bytes: &mut Vec<u8>) -> Result<(), Code> {
        bytes.clear();
        self.stream(kind, |piece| bytes.extend_from_slice(piece))
    }

    /// The same, in pieces; whether it is good is known at the end.
    pub fn stream(&mut self, kind: &Kind, mut sink: impl FnMut(&[u8])) -> Result<(), Code> {
        let mut hash = None;
        let id = self.receive(kind, &mut |size, piece| {
            hash.get_or_insert_with(|| object_hash(kind.name, size)).update(piece);
            sink(piece);
        })?;
        let good = finish(hash.unwrap_or_else(|| object_hash(kind.name, 0))) == id;
        self.judge(good)
    }

    /// Whether the next answer has these bytes. Its id has been computed from them, so it need not be hashed again.
    pub fn answer_is(&mut self, kind: &Kind, expected: &[&[u8]], bytes: &mut Vec<u8>) -> Result<(), Code> {
        bytes.clear();
        self.receive(kind, &mut |_, piece| bytes.extend_from_slice(piece))?;
        let rest = expected.iter().try_fold(&bytes[..], |rest, part| rest.strip_prefix(*part));
        self.judge(rest.is_some_and(<[u8]>::is_empty))
    }

    fn judge(&mut self, good: bool) -> Result<(), Code> {
        if good {
            return Ok(());
        }
        self.restart();
        Err("bad-object")
    }

    /// Hands over the bytes of the next answer, with their whole number.
    fn receive(&mut self, kind: &Kind, sink: &mut dyn FnMut(usize, &[u8])) -> Result<Id, Code> {
        let id = self.waiting.pop_front().ok_or("bad-object")?;
        let mut code = "bad-object";
        let result = match &mut self.running {
            Some(running) => {
                let answer = read_answer(&mut running.output, &id, kind, &mut code, sink);
                match answer {
                    Ok(()) if self.waiting.is_empty() => read_line(&mut running.output)
                        .and_then(|line| if line == self.end_answer { Ok(()) } else { Err(strange()) }),
                    answer => answer,
                }
            }
            None => Err(strange()),
        };
        match result {
            Ok(()) if code == NO_FAULT => Ok(id),
            Ok(()) => Err(code),
            Err(_) => {
                self.restart();
                Err(if code == NO_FAULT { "bad-object" } else { code })
            }
        }
    }

    /// Another git for the requests that have no answer yet: after the end of the first one, and after each answer that is
    /// not good, so that nothing that an object made git print is taken for the answer of another.
    fn restart(&mut self) {
        self.running = None;
        self.requests.clear();
        for id in take(&mut self.waiting) {
            self.ask(&id);
        }
        self.flush();
    }

    /// Answers that are still to come are of no interest any more.
    pub fn forget(&mut self) {
        if !self.waiting.is_empty() {
            self.waiting.clear();
            self.restart();
        }
    }
}

fn start(path: &Path, end_answer: &[u8]) -> io::Result<Running> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    let mut git_dir = std::ffi::OsString::from("--git-dir=");
    git_dir.push(path);
    let mut child = command
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOC_LIMIT", "256m")
        .arg(git_dir)
        .args(["--no-replace-objects", "-c", "core.bigFileThreshold=32m", "-c", "core.multiPackIndex=false"])
        .args(["cat-file", "--batch-command", "--buffer"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, pipe) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    let output = Output { pipe, tail: Vec::new(), end_answer: end_answer.to_vec() };
    Ok(Running { child, input, output: BufReader::with_capacity(1 << 16, output) })
}

fn strange() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// A line with its newline; one that is too long is cut.
fn read_line(output: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    output.take(200).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// One answer. `code` is what is wrong with the object, as far as is known then. An error: it is not good, and what comes
/// after it cannot be used.
fn read_answer(
    output: &mut impl BufRead,
    id: &Id,
    kind: &Kind,
    code: &mut Code,
    sink: &mut dyn FnMut(usize, &[u8]),
) -> io::Result<()> {
    let header = read_line(output)?;
    let header = std::str::from_utf8(&header).ok().and_then(|line| line.strip_suffix('\n')).ok_or_else(strange)?;
    let rest = header.strip_prefix(&hex(id)).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(strange)?;
    if rest == "missing" {
        *code = "missing-object";
        return Ok(());
    }
    let (name, size) = rest.split_once(' ').ok_or_else(strange)?;
    let size: u64 = size.parse().map_err(|_| strange())?;
    if name != kind.name {
        return Err(strange());
    }
    if size > kind.limit {
        *code = kind.too_large;
        return Err(strange());
    }
    let mut left = size;
    while left > 0 {
        let piece = output.fill_buf()?;
        let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sink(size as usize, piece);
        let length = piece.len();
        output.consume(length);
        left -= length as u64;
    }
    if read_line(&mut output.take(1))? != b"\n" {
        return Err(strange());
    }
    *code = NO_FAULT;
    Ok(())
}

/// A ref that names a line.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    pub name: String,
    /// The two last parts as they are spelled.
    pub session: String,
    pub branch: String,
}

pub struct Refs {
    /// Sorted by name; None: holds no id.
    pub lines: BTreeMap<Ref, Option<Id>>,
    pub foreign: u64,
}

/// The folder of the repository that PATH is.
pub fn find_repository(path: &Path) -> Option<PathBuf> {
    let candidates = [path.to_path_buf(), path.join(".git")];
    let found = candidates.into_iter().find(|path| path.join("HEAD").is_file() && path.join("objects").is_dir())?;
    (!found.join("reftable").is_dir()).then_some(found)
}

pub fn read_refs(repository: &Path) -> io::Result<Refs> {
    let mut all = BTreeMap::new();
    for line in read_regular(&repository.join("packed-refs"))?.split(|byte| *byte == b'\n') {
        if line.len() > 41
            && line[40] == b' '
            && let Some(id) = from_hex(&line[..40])
            && (line[41..].starts_with(b"refs/heads/") || line[41..].starts_with(b"refs/remotes/"))
        {
            all.insert(line[41..].to_vec(), Some(id));
        }
    }
    let mut folders = Vec::new();
    for name in ["refs/heads", "refs/remotes"] {
        let is_folder = |path: &str| fs::symlink_metadata(repository.join(path)).is_ok_and(|found| found.is_dir());
        if is_folder("refs") && is_folder(name) {
            folders.push((repository.join(name), name.as_bytes().to_vec()));
        }
    }
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = [&prefix[..], b"/", &entry.file_name().into_vec()].concat();
            // The type of the entry itself: links are not followed.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push((entry.path(), name));
            } else if !name.ends_with(b".lock") {
                let id = if kind.is_file() { read_ref(&entry.path())? } else { None };
                all.insert(name, id);
            }
        }
    }
    let mut refs = Refs { lines: BTreeMap::new(), foreign: 0 };
    for (name, id) in all {
        let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
        if matches!(parts[..], [_, b"remotes", _, b"HEAD"]) {
            continue;
        }
        match line_name(&name) {
            Some(line) => {
                refs.lines.insert(line, id);
            }
            None => refs.foreign += 1,
        }
    }
    Ok(refs)
}

fn line_name(name: &[u8]) -> Option<Ref> {
    let name = std::str::from_utf8(name).ok()?;
    let parts: Vec<&str> = name.split('/').collect();
    let (session, branch) = match parts[..] {
        ["refs", "heads", session, branch] | ["refs", "remotes", _, session, branch] => (session, branch),
        _ => return None,
    };
    decode(session).and(decode(branch))?;
    Some(Ref { name: name.to_string(), session: session.to_string(), branch: branch.to_string() })
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
        Ok(found) if found.is_file() && found.len() > MAX_REFS => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(found) if found.is_file() => fs::read(path),
        _ => Ok(Vec::new()),
    }
}
