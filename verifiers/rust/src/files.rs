//! Exports (section 11 of format.md) and proofs (section 9).

use crate::base::{Code, Hash, hex, must, unbase64};
use crate::event::{Event, File, MAX_EVENT, encode, is_part};
use crate::git::pour;
use crate::json::{self, Value};
use crate::line::{Line, Seal, merkle_leaf, merkle_node};
use crate::sign::Trust;
use ring::digest::{Context, SHA256};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

const MAX_PROOF: u64 = 64 << 20;

/// Of proofs: which members are texts of events, in the order in which they are checked, and which there are.
const KINDS: [(&str, [&str; 2], [&str; 6]); 2] = [
    ("inclusion", ["event", "seal"], ["event", "format", "kind", "path", "seal", "version"]),
    ("consistency", ["first", "second"], ["first", "format", "kind", "path", "second", "version"]),
];

/// Checks an export; an error if it is empty or cannot be read.
pub fn check_export(path: &Path, trust: &Arc<Trust>) -> io::Result<Line> {
    let mut input = BufReader::with_capacity(1 << 16, fs::File::open(path)?);
    let mut line = Line::new(trust, None, None);
    let mut bytes = Vec::new();
    while !input.fill_buf()?.is_empty() {
        bytes.clear();
        input.by_ref().take(MAX_EVENT as u64 + 1).read_until(b'\n', &mut bytes)?;
        let has_end = bytes.pop_if(|last| *last == b'\n').is_some();
        let is_whole = has_end || (bytes.len() > MAX_EVENT && skip_line(&mut input)?);
        line.head += 1;
        // The lines are counted all the same.
        if !line.is_full() {
            check_event(path, &mut line, is_whole.then_some(&bytes));
        }
    }
    if line.head == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}

/// Passes over the rest of a line; false if the file ends in it.
fn skip_line(input: &mut impl BufRead) -> io::Result<bool> {
    let mut piece = vec![0];
    while !piece.is_empty() && !piece.ends_with(b"\n") {
        piece.clear();
        input.by_ref().take(1 << 16).read_until(b'\n', &mut piece)?;
    }
    Ok(!piece.is_empty())
}

/// One line of an export; None if its newline is not there.
fn check_event(path: &Path, line: &mut Line, bytes: Option<&Vec<u8>>) {
    let mut nodes = Vec::new();
    let seq = line.head;
    let event = match bytes.ok_or("truncated").and_then(|bytes| Event::read(bytes, &mut nodes)) {
        Ok(event) => event,
        Err(code) => {
            line.lose();
            return line.find(code, Some(seq), "");
        }
    };
    line.push(&event, "");
    for (number, file) in (1..).zip(&event.files) {
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".files/{seq}.{number}"));
        match is_side_file(path.as_ref(), file) {
            Ok(true) => line.side_files += 1,
            Ok(false) => line.find("bad-file", Some(seq), &hex(&event.hash)),
            Err(_) => line.find("missing-object", Some(seq), &hex(&event.hash)),
        }
    }
}

/// Whether the file has this content; an error if there is no regular file. One of another size is not read.
fn is_side_file(path: &Path, file: &File) -> io::Result<bool> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).ok_or(io::ErrorKind::NotFound)?;
    let mut hash = Context::new(&SHA256);
    if found.len() == file.size {
        let mut input = BufReader::with_capacity(1 << 16, fs::File::open(path)?.take(file.size));
        pour(&mut input, &mut |piece| hash.update(piece))?;
    }
    Ok(found.len() == file.size && hash.finish().as_ref() == file.sha256)
}

/// Checks a proof.
pub fn check_proof(path: &Path, trust: &Arc<Trust>) -> io::Result<Line> {
    let mut line = Line::new(trust, None, None);
    let is_small = fs::metadata(path)?.len() <= MAX_PROOF;
    let raw = if is_small { fs::read(path)? } else { Vec::new() }; // which is no JSON
    if let Err(code) = proof(&raw, &mut line) {
        line.find(code, None, "");
    }
    Ok(line)
}

/// At most 1,000 of the bytes `,` `[` `{` stand outside of strings: each value takes far more room than its text.
fn has_few_values(text: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    let is_mark = |byte: &&u8| {
        let mark = !quoted && matches!(**byte, b',' | b'[' | b'{');
        quoted ^= **byte == b'"' && !escaped;
        escaped = **byte == b'\\' && !escaped;
        mark
    };
    text.iter().filter(is_mark).nth(1000).is_none()
}

/// The first broken rule, if there is one.
fn proof(raw: &[u8], line: &mut Line) -> Result<(), Code> {
    let mut nodes = Vec::new();
    let body = raw.strip_suffix(b"\n").unwrap_or(raw);
    must(has_few_values(body), "bad-json")?;
    let proof = json::read(body, &mut nodes)?;
    must(body.len() < raw.len(), "not-canonical")?;
    must(proof.is_object(), "bad-json")?;
    let text = |name| proof.get(name).and_then(Value::string);
    must(text("format").as_deref() == Some("gitjournal-proof"), "bad-version")?;
    must(proof.get("version").and_then(Value::integer) == Some(1), "bad-version")?;
    let kind =
        KINDS.iter().find(|(kind, _, members)| text("kind").as_deref() == Some(kind) && proof.has_exactly(members));
    let (kind, [first, second], _) = kind.ok_or("bad-member")?;
    let (Some(first), Some(second)) = (text(first), text(second)) else { return Err("bad-member") };
    let path = proof.get("path").and_then(read_path).ok_or("bad-member")?;

    let (mut first_nodes, mut second_nodes) = (Vec::new(), Vec::new());
    let is_inclusion = *kind == "inclusion";
    let first = Event::read(first.as_bytes(), &mut first_nodes)?;
    must(is_inclusion || first.kind == "session.seal", "bad-seal")?;
    if first.data.is_none() {
        line.withheld.push((first.seq, first.seq));
    }
    let second = Event::read(second.as_bytes(), &mut second_nodes)?;
    must(second.kind == "session.seal", "bad-seal")?;

    let read_seal = |event: &Event| Seal::read(event, event.seq).filter(|seal| checkpoint_is_good(seal, event));
    let older = if is_inclusion { None } else { Some(read_seal(&first).ok_or("bad-seal")?) };
    line.seals = u64::from(!is_inclusion);
    let newer = read_seal(&second).ok_or("bad-seal")?;
    line.seals += 1;
    line.head = newer.size;
    let path_holds = match &older {
        Some(older) => is_consistent(older.size, &older.root, newer.size, &newer.root, &path),
        None => is_included(first.seq, &first.hash, newer.size, &newer.root, &path),
    };
    must(path_holds && (is_inclusion || first.session == second.session), "bad-seal")?;
    if let Some(older) = &older {
        line.seal_signatures(older, first.time, (None, ""));
    }
    line.seal_signatures(&newer, second.time, (None, ""));
    Ok(())
}

/// 32 bytes each, 64 of them at most.
fn read_path(path: Value) -> Option<Vec<Hash>> {
    let path: Vec<_> = path.items()?.map(|item| unbase64(item.inner()?)?.try_into().ok()).collect::<Option<_>>()?;
    (path.len() <= 64).then_some(path)
}

/// Rule 3, with a branch of any name.
fn checkpoint_is_good(seal: &Seal, event: &Event) -> bool {
    let session = encode(&event.session);
    let rest = seal.checkpoint.strip_prefix(&format!("gitjournal/{session}/"));
    let branch = rest.and_then(|rest| rest.split('\n').next()).filter(|branch| is_part(branch));
    branch.is_some_and(|branch| seal.checkpoint == seal.text(&format!("{session}/{branch}")))
}

/// RFC 9162 section 2.1.3.2: the event at place `seq` is in the tree.
pub fn is_included(seq: u64, hash: &Hash, size: u64, root: &Hash, path: &[Hash]) -> bool {
    seq <= size && roots(seq - 1, size - 1, merkle_leaf(hash), path).is_some_and(|roots| roots.1 == *root)
}

/// RFC 9162 section 2.1.4.2: the first tree is the beginning of the second.
pub fn is_consistent(first: u64, first_root: &Hash, second: u64, second_root: &Hash, path: &[Hash]) -> bool {
    if first >= second || path.is_empty() {
        return first == second && first_root == second_root && path.is_empty();
    }
    let (begin, path) = if first.is_power_of_two() { (first_root, path) } else { (&path[0], &path[1..]) };
    let full = (first - 1).trailing_ones();
    roots((first - 1) >> full, (second - 1) >> full, *begin, path) == Some((*first_root, *second_root))
}

/// What a path makes of its begin: the roots of the tree that ends at the place `at`, and of that which ends at `last`.
/// (Of an inclusion only the second one has a meaning. `at` and `last` are fn and sn of RFC 9162.)
fn roots(mut at: u64, mut last: u64, begin: Hash, path: &[Hash]) -> Option<(Hash, Hash)> {
    let (mut old, mut new) = (begin, begin);
    for other in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            (old, new) = (merkle_node(other, &old), merkle_node(other, &new));
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            new = merkle_node(&new, other);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some((old, new))
}
