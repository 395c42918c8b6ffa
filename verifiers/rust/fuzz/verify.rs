//! One target for all that reads bytes: the first byte of an input says as what the rest is read.

#![no_main]

#[path = "../src/main.rs"]
#[allow(dead_code)]
mod program;

use libfuzzer_sys::fuzz_target;
use program::*;
use std::sync::{Arc, LazyLock};

/// The key that signed `message` in the seeds, as a line of allowed signers.
const SIGNER: &str = include_str!("signer");

static TRUST: LazyLock<Arc<sign::Trust>> = LazyLock::new(|| {
    let signers = sign::read_lines(SIGNER, sign::read_signer);
    Arc::new(sign::Trust { signers, revoked: Vec::new() })
});

fuzz_target!(|input: &[u8]| {
    let Some((kind, raw)) = input.split_first() else { return };
    match kind {
        b'e' => read_event(raw),
        b'x' => check_file(raw, "jsonl"),
        b'p' => check_file(raw, "json"),
        b's' => check_signature(raw),
        b'k' => read_keys(raw),
        b'c' => read_commit(raw),
        b't' => read_tree(raw),
        b'g' => read_pack(raw),
        _ => {}
    }
});

/// What is taken for an event is canonical JSON, and so is each value in it.
fn read_event(raw: &[u8]) {
    let mut nodes = Vec::new();
    let Ok(event) = event::Event::read(raw, &mut nodes) else { return };
    let (seq, hash) = (event.seq, event.hash);
    let mut nodes = Vec::new();
    let value = json::read(raw, &mut nodes).expect("canonical");
    assert_eq!(value.raw().as_bytes(), raw);
    for (_, member) in value.members() {
        json::read(member.raw().as_bytes(), &mut Vec::new()).expect("canonical by itself");
        if let Some(text) = member.string() {
            assert_eq!(json::quote(&text), member.raw());
        }
    }
    let again = event::Event::read(raw, &mut nodes).expect("as before");
    assert_eq!((again.seq, again.hash), (seq, hash));
}

/// A pack and its index of any bytes: what is not read well is not found. The first two bytes say where the pack ends.
fn read_pack(raw: &[u8]) {
    let Some((cut, _)) = raw.split_first_chunk::<2>() else { return };
    let (pack, index) = raw.split_at(usize::from(u16::from_be_bytes(*cut)).clamp(2, raw.len()));
    let repository = std::env::temp_dir().join(format!("verify-{}.git", std::process::id()));
    let folder = repository.join("objects/pack");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(folder.join("p.pack"), &pack[2..]).expect("a temporary file");
    std::fs::write(folder.join("p.idx"), index).expect("a temporary file");
    let packs = pack::open_packs(&repository).unwrap_or_default();
    let mut unpacker = pack::Unpacker::new(&packs);
    for id in index.get(1032..).unwrap_or_default().chunks_exact(20).take(64) {
        let id = id.try_into().expect("20 bytes");
        for kind in ["commit", "tree", "blob"] {
            assert!(unpacker.good(id, kind).is_none_or(|bytes| base::object_id(kind, &[&bytes]) == *id));
        }
    }
}

/// A verdict is one line, and its status fits its findings.
fn check_file(raw: &[u8], ending: &str) {
    let path = std::env::temp_dir().join(format!("verify-{}.{ending}", std::process::id()));
    std::fs::write(&path, raw).expect("a temporary file");
    let result = match ending {
        "json" => files::check_proof(&path, &TRUST),
        _ => files::check_export(&path, &TRUST),
    };
    let Ok(mut line) = result else {
        assert!(raw.is_empty());
        return;
    };
    line.finish(None, false);
    let input = if ending == "json" { "proof" } else { "jsonl" };
    let (text, status) = verdict::print(input, &[line], 0, false, true);
    assert_eq!(text.find('\n'), Some(text.len() - 1));
    json::read(text.trim_end().as_bytes(), &mut Vec::new()).expect("a verdict is canonical");
    assert_eq!(status == 1, text.contains("\"code\":"));
}

/// Only the key of the seeds has ever signed the message.
fn check_signature(raw: &[u8]) {
    let Ok(text) = std::str::from_utf8(raw) else { return };
    if let Some((public_key, _, true)) = sign::verify(text, "git", b"message", None) {
        assert!(TRUST.accepts(&public_key, "git", 0).is_some(), "a forged signature");
    }
}

fn read_keys(raw: &[u8]) {
    let Ok(text) = std::str::from_utf8(raw) else { return };
    let revoked = sign::read_lines(text, sign::read_key).unwrap_or_default();
    let trust = sign::Trust { signers: sign::read_lines(text, sign::read_signer), revoked };
    for revoked in &trust.revoked {
        assert!(trust.accepts(revoked, "git", 0).is_none());
    }
    for key in TRUST.signers.iter().flatten() {
        let _ = (trust.accepts(key.principals.as_bytes(), "git", 0), key.valid_before);
    }
}

/// A commit in form says which bytes it is without its signature.
fn read_commit(raw: &[u8]) {
    let Some(commit) = derive::Commit::read(raw) else { return };
    let unsigned = derive::Commit::read(commit.unsigned.as_bytes()).expect("in form as well");
    assert!(unsigned.signature.is_none() && unsigned.seq == commit.seq && unsigned.says == commit.says);
    assert_eq!(commit.signature.is_none(), unsigned.unsigned.as_bytes() == raw);
}

/// The entries of a tree, put together, are the tree.
fn read_tree(raw: &[u8]) {
    let Some(entries) = derive::tree_entries(raw) else {
        assert!(derive::leaf_entries(raw).is_none());
        return;
    };
    let parts = entries.iter().flat_map(|(mode, name, id)| [mode, &b" "[..], name, b"\0", id]);
    assert_eq!(parts.collect::<Vec<_>>().concat(), raw);
    if let Some(leaf) = derive::leaf_entries(raw) {
        assert_eq!(leaf.len(), entries.len());
    }
}
