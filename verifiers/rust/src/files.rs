//! Exports (section 11 of format.md) and proofs (section 9).

use crate::event::{Event, MAX_EVENT, decode, encode};
use crate::json::{self, Value};
use crate::line::{Line, Seal, merkle_leaf, merkle_node};
use crate::sign::{Trust, unbase64};
use crate::{Code, Hash, hex};
use ring::digest::{Context, SHA256};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

const MAX_PROOF: u64 = 64 << 20;

/// Checks an export; an error if it is empty or cannot be read.
pub fn check_export<'t>(path: &Path, trust: &'t Trust) -> io::Result<Line<'t>> {
    let mut input = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut line = Line::new(trust, None);
    let mut folder = path.as_os_str().to_owned();
    folder.push(".files");
    let (mut bytes, mut nodes) = (Vec::new(), Vec::new());
    loop {
        bytes.clear();
        input.by_ref().take(MAX_EVENT as u64 + 1).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        let whole = bytes.pop_if(|last| *last == b'\n').is_some();
        let too_long = bytes.len() > MAX_EVENT;
        let complete = whole || (too_long && skip_line(&mut input)?);
        line.head += 1;
        let seq = Some(line.head);
        let event = match () {
            // The lines are counted all the same.
            () if line.is_full() => continue,
            () if !complete => Err("truncated"),
            () if too_long => Err("bad-member"),
            () => Event::read(&bytes, &mut nodes),
        };
        match event {
            Ok(event) => {
                line.push(&event, None);
                for (number, file) in (1..).zip(&event.files) {
                    let path = Path::new(&folder).join(format!("{}.{number}", line.head));
                    match is_side_file(&path, file.size, &file.sha256) {
                        Ok(true) => line.side_files += 1,
                        Ok(false) => line.find("bad-file", seq, &hex(&event.hash)),
                        Err(_) => line.find("missing-object", seq, &hex(&event.hash)),
                    }
                }
            }
            Err(code) => {
                line.find(code, seq, "");
                line.lose();
            }
        }
    }
    if line.head == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}

/// Passes over the rest of a line; false if the file ends in it.
fn skip_line(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = input.fill_buf()?;
        let newline = piece.iter().position(|byte| *byte == b'\n');
        let (length, ended) = (newline.map_or(piece.len(), |at| at + 1), piece.is_empty());
        input.consume(length);
        if newline.is_some() || ended {
            return Ok(newline.is_some());
        }
    }
}

/// Whether the file has this content; an error if there is no regular file.
fn is_side_file(path: &Path, size: u64, sha256: &str) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if found.len() != size {
        return Ok(false);
    }
    let mut input = BufReader::with_capacity(1 << 16, File::open(path)?.take(size));
    let mut hash = Context::new(&SHA256);
    loop {
        let piece = input.fill_buf()?;
        if piece.is_empty() {
            return Ok(hex(hash.finish().as_ref()) == sha256);
        }
        hash.update(piece);
        let length = piece.len();
        input.consume(length);
    }
}

/// Checks a proof.
pub fn check_proof<'t>(path: &Path, trust: &'t Trust) -> io::Result<Line<'t>> {
    let mut line = Line::new(trust, None);
    let result = match fs::metadata(path)?.len() {
        0..=MAX_PROOF => proof(&fs::read(path)?, &mut line),
        _ => Err("bad-json"),
    };
    if let Err(code) = result {
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
    if !has_few_values(body) {
        return Err("bad-json");
    }
    let proof = json::read(body, &mut nodes)?;
    if body.len() == raw.len() {
        return Err("not-canonical");
    }
    if !proof.is_object() {
        return Err("bad-json");
    }
    let text = |name| proof.get(name).and_then(Value::string);
    if text("format").as_deref() != Some("gitjournal-proof") || proof.get("version").and_then(Value::integer) != Some(1)
    {
        return Err("bad-version");
    }
    let is_inclusion = match text("kind").as_deref() {
        Some("inclusion") if proof.has_exactly(&["event", "format", "kind", "path", "seal", "version"]) => true,
        Some("consistency") if proof.has_exactly(&["first", "format", "kind", "path", "second", "version"]) => false,
        _ => return Err("bad-member"),
    };
    let names = if is_inclusion { ["event", "seal"] } else { ["first", "second"] };
    let (Some(first), Some(second)) = (text(names[0]), text(names[1])) else { return Err("bad-member") };
    let path = proof.get("path").and_then(read_path).ok_or("bad-member")?;

    let (mut first_nodes, mut second_nodes) = (Vec::new(), Vec::new());
    let is_seal = |event: &Event| if event.kind == "session.seal" { Ok(()) } else { Err("bad-seal") };
    let first = Event::read(first.as_bytes(), &mut first_nodes)?;
    if !is_inclusion {
        is_seal(&first)?;
    } else if first.data.is_none() {
        line.withheld.push((first.seq, first.seq));
    }
    let second = Event::read(second.as_bytes(), &mut second_nodes)?;
    is_seal(&second)?;

    let mut seals = Vec::new();
    for event in if is_inclusion { vec![&second] } else { vec![&first, &second] } {
        let seal = Seal::read(event, event.seq).filter(|seal| checkpoint_is_good(seal, event)).ok_or("bad-seal")?;
        line.seals += 1;
        seals.push((seal, event.time));
    }
    let newest = &seals[seals.len() - 1].0;
    line.head = newest.size;
    let holds = match &seals[..] {
        [(older, _), _] => {
            first.session == second.session && is_consistent(older.size, &older.root, newest.size, &newest.root, &path)
        }
        _ => is_included(first.seq, &first.hash, newest.size, &newest.root, &path),
    };
    if !holds {
        return Err("bad-seal");
    }
    for (seal, time) in &seals {
        line.seal_signatures(seal, *time, None, "");
    }
    Ok(())
}

fn read_path(value: Value) -> Option<Vec<Hash>> {
    let mut path = Vec::new();
    for item in value.items()? {
        path.push(Hash::try_from(unbase64(item.inner()?)?).ok()?);
        if path.len() > 64 {
            return None;
        }
    }
    Some(path)
}

/// Rule 3, with a branch of any name.
fn checkpoint_is_good(seal: &Seal, event: &Event) -> bool {
    let session = encode(&event.session);
    let branch =
        seal.checkpoint.strip_prefix(&format!("gitjournal/{session}/")).and_then(|rest| rest.split('\n').next());
    branch
        .is_some_and(|branch| decode(branch).is_some() && seal.checkpoint == seal.text(&format!("{session}/{branch}")))
}

/// RFC 9162 section 2.1.3.2: the event at place `seq` is in the tree.
fn is_included(seq: u64, hash: &Hash, size: u64, root: &Hash, path: &[Hash]) -> bool {
    if seq > size {
        return false;
    }
    let (mut at, mut last) = (seq - 1, size - 1);
    let mut found = merkle_leaf(hash);
    for other in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            found = merkle_node(other, &found);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            found = merkle_node(&found, other);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && found == *root
}

/// RFC 9162 section 2.1.4.2: the first tree is the beginning of the second.
fn is_consistent(first: u64, first_root: &Hash, second: u64, second_root: &Hash, path: &[Hash]) -> bool {
    if first >= second {
        return first == second && first_root == second_root && path.is_empty();
    }
    let mut path = path.iter();
    let begin = if first.is_power_of_two() && path.len() > 0 { Some(first_root) } else { path.next() };
    let Some(begin) = begin else { return false };
    let (mut at, mut last) = (first - 1, second - 1);
    while at & 1 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let (mut old, mut new) = (*begin, *begin);
    for other in path {
        if last == 0 {
            return false;
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
    last == 0 && old == *first_root && new == *second_root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(leaves: &[Hash]) -> Hash {
        match leaves {
            [leaf] => merkle_leaf(leaf),
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                merkle_node(&root(left), &root(right))
            }
        }
    }

    fn inclusion(leaves: &[Hash], at: usize) -> Vec<Hash> {
        if leaves.len() == 1 {
            return Vec::new();
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let (mut path, other) =
            if at < left.len() { (inclusion(left, at), right) } else { (inclusion(right, at - left.len()), left) };
        path.push(root(other));
        path
    }

    fn consistency(leaves: &[Hash], first: usize, whole: bool) -> Vec<Hash> {
        if first == leaves.len() {
            return if whole { Vec::new() } else { vec![root(leaves)] };
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let (mut path, other) = if first <= left.len() {
            (consistency(left, first, whole), right)
        } else {
            (consistency(right, first - left.len(), false), left)
        };
        path.push(root(other));
        path
    }

    /// The paths are made as RFC 9162 sections 2.1.3.1 and 2.1.4.1 say; a changed one must not do.
    #[test]
    fn proofs_of_all_small_trees() {
        let leaves: Vec<Hash> = (1..=20).map(|byte| [byte; 32]).collect();
        for size in 1..=leaves.len() {
            let tree = root(&leaves[..size]);
            for at in 1..=size {
                let path = inclusion(&leaves[..size], at - 1);
                let holds = |seq, path: &[Hash]| is_included(seq, &leaves[at - 1], size as u64, &tree, path);
                assert!(holds(at as u64, &path));
                assert!(!holds(at as u64 % size as u64 + 1, &path) || size == 1);
                assert!(!holds(at as u64, &[&path[..], &[tree]].concat()));
                assert!(path.is_empty() || !holds(at as u64, &path[1..]));
                assert!(!holds(size as u64 + 1, &path));

                let path = consistency(&leaves[..size], at, true);
                let older = root(&leaves[..at]);
                let holds = |path: &[Hash]| is_consistent(at as u64, &older, size as u64, &tree, path);
                assert!(holds(&path));
                assert!(!holds(&[&path[..], &[tree]].concat()));
                assert!(path.is_empty() || !holds(&path[1..]));
            }
        }
    }
}
