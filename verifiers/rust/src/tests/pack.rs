use crate::base::from_hex;
use crate::pack::{NOWHERE, Unpacker, open_packs, stored};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn git(folder: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(folder).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All objects of a pack are found without git, whole and as deltas; those that git would have to look for are not.
#[test]
fn packs() {
    let folder = std::env::temp_dir().join(format!("verify-chain-packs-{}", std::process::id()));
    git(&folder, &["init", "--quiet", "--bare"], "");
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let text: Vec<u8> = (0..60_000).map(|_| random()).collect();
    let contents: Vec<&[u8]> = (0..60).flat_map(|n| [&text[..n * 1000], &text[n..n + n * n * 16]]).collect();
    let mut paths = String::new();
    for (n, content) in contents.iter().enumerate() {
        let path = folder.join(format!("file-{n}"));
        fs::write(&path, content).unwrap();
        paths += &format!("{}\n", path.display());
    }
    let ids = git(&folder, &["hash-object", "-w", "--stdin-paths"], &paths);
    let pack = folder.join("objects/pack/pack").display().to_string();
    for option in ["--window=0", "--delta-base-offset", "--no-reuse-delta --delta-base-offset"] {
        let options = ["pack-objects", "-q", "--depth=5"].into_iter().chain(option.split(' ')).chain([&pack[..]]);
        git(&folder, &options.collect::<Vec<_>>(), &ids);
        let packs = open_packs(&folder).unwrap();
        let mut unpacker = Unpacker::new(&packs);
        for (id, content) in ids.lines().zip(&contents) {
            let id = from_hex(id).unwrap();
            assert!(unpacker.good(&id, "blob").is_some_and(|found| found == *content), "{option}");
            assert!(unpacker.good(&id, "tree").is_none());
        }
        let bases = unpacker.bases.iter().filter(|base| base.0 != NOWHERE).count();
        assert_eq!(bases > 0, option.contains("delta"), "{option}");
        let content = contents[9];
        let id = from_hex(ids.lines().nth(9).unwrap()).unwrap();
        let (one, other) = content.split_at(content.len() / 2);
        assert!(unpacker.has(&id, "blob", &[one, other]) && !unpacker.has(&id, "tree", &[one, other]));
        assert!(!unpacker.has(&id, "blob", &[one, other, b"x"]) && !unpacker.has(&id, "blob", &[one]));
        for entry in fs::read_dir(folder.join("objects/pack")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, path.with_file_name("twice").with_extension(path.extension().unwrap())).unwrap();
        }
        let twice = open_packs(&folder).unwrap();
        assert!(Unpacker::new(&twice).good(&id, "blob").is_none());
        fs::write(folder.join("objects/info/alternates"), "").unwrap();
        assert!(open_packs(&folder).is_none());
        fs::remove_file(folder.join("objects/info/alternates")).unwrap();
        for entry in fs::read_dir(folder.join("objects/pack")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The shortcut for one stored block takes what zlib takes, whatever byte of it is changed, and nothing else.
#[test]
fn stored_blocks() {
    for size in [0, 1, 20, 300, 65_535] {
        let data: Vec<u8> = (0..size).map(|n| (n * 7 + 200) as u8).collect();
        let length = (size as u16).to_le_bytes();
        let inverted = (!(size as u16)).to_le_bytes();
        let mut coder = flate2::Compress::new(flate2::Compression::none(), true);
        let mut sum = Vec::with_capacity(size + 1000);
        coder.compress_vec(&data, &mut sum, flate2::FlushCompress::Finish).unwrap();
        let sum = sum.last_chunk::<4>().unwrap();
        let good = [b"\x78\x01\x01", &length[..], &inverted, &data, sum].concat();
        assert_eq!(stored(&good, size), Some(&data[..]));
        assert_eq!(stored(&[&good[..], b"more"].concat(), size), Some(&data[..]));
        assert_eq!(stored(&good[..good.len() - 1], size), None);
        assert_eq!(stored(&good, size + 1), None);
        for at in (0..good.len()).filter(|at| size < 1000 || *at < 9 || *at > size) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(stored(&bad, size), None, "{size} {at}");
        }
    }
}
