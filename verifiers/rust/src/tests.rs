//! What the tests of several modules use, and the worked example of docs/format.md section 14.

mod event;
mod files;
mod json;
mod line;
mod pack;
mod sign;

use crate::base::{Id, from_hex, hex, object_id};
use crate::derive::{Commit, Deriver, commit_text, leaf_entries, tree_entries};
use crate::event::Event;
use crate::line::Line;
use crate::sign::{Trust, read_key, read_lines, read_signer, verify};
use std::sync::Arc;

/// The same texts in every run: each seed with a few bytes changed, taken out, put in or doubled.
pub fn mutations<'a>(seeds: &'a [&'a [u8]], count: usize) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below.max(1)
    };
    (0..count).map(move |_| {
        let mut text = seeds[random(seeds.len())].to_vec();
        for _ in 0..random(3) + 1 {
            let at = random(text.len());
            let byte = if random(2) == 0 { b" \"\\{}[]:,0123456789eE+-.=\n\0"[random(27)] } else { random(256) as u8 };
            match random(5) {
                0 if !text.is_empty() => text[at] = byte,
                1 if !text.is_empty() => _ = text.remove(at),
                2 => text.insert(at, byte),
                3 => text.truncate(at),
                _ => {
                    let to = at + random(text.len() - at);
                    text.extend_from_within(at..to);
                }
            }
        }
        text
    })
}

const EVENTS: [&str; 3] = [
    r#"{"actor":"host","data":{"agent.name":"helper"},"epoch":1,"prev":null,"salt":"AAECAwQFBgcICQoLDA0ODw","seq":1,"session":"demo","ts":"2026-01-02T03:04:05.678Z","type":"session.start","v":1}"#,
    r#"{"actor":"user","data":{"parts":[{"content":"What is on my list?","type":"text"}],"role":"user"},"epoch":1,"prev":"bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29","salt":"EBESExQVFhcYGRobHB0eHw","seq":2,"session":"demo","ts":"2026-01-02T03:04:06.000Z","turn":"t1","type":"message","v":1}"#,
    r#"{"actor":"assistant","data":{"parts":[{"content":{"$gj:file":1},"type":"text"}],"role":"assistant"},"epoch":1,"files":[{"media_type":"text/plain; charset=utf-8","name":"list.txt","sha256":"6e0c531b9de9adaa9fed63bbafb3760e91758f5f54261617e67b3b51d6607f23","size":10}],"prev":"5215d3a519d13b7e2e11e35ea309b9c4a85836eeee85cb4161dcc023892d4b78","salt":"ICEiIyQlJicoKSorLC0uLw","seq":3,"session":"demo","ts":"2026-01-02T03:04:05.999Z","turn":"t1","type":"message","v":1}"#,
];
const COMMITS: [&str; 3] = [
    "ea22b17df5623f903dba505fff38f0491ccf985a",
    "2ebc0fc83308bd8cc4d9f15259ea48888b6ac935",
    "cc799c82e58cdca2a1b57af48677ea2d32212205",
];

#[test]
fn the_worked_example() {
    let mut line = Line::new(&Arc::new(Trust::default()), None, None);
    let mut deriver = Deriver::default();
    let mut leaf = Vec::new();
    let mut parent: Option<Id> = None;
    for (at, raw) in EVENTS.iter().enumerate() {
        let mut nodes = Vec::new();
        let event = Event::read(raw.as_bytes(), &mut nodes).unwrap();
        line.push(&event, "");
        if event.seq == 3 {
            leaf.extend(b"100644 00000003.1\0");
            leaf.extend(from_hex::<20>("8a3327752e59b7a3d49175740007b75660307b15").unwrap());
        }
        leaf.extend(format!("100644 {:08}.json\0", event.seq).as_bytes());
        leaf.extend(object_id("blob", &[raw.as_bytes()]));
        let entries = leaf_entries(&leaf).unwrap();
        let own = entries.iter().filter(|entry| entry.seq == event.seq).cloned().collect::<Vec<_>>();
        let trees = deriver.push(&event, &own);
        let subject = [event.kind, &event.seq.to_string(), &event.session, &hex(&event.hash)];
        let text = commit_text(&trees[2], parent.as_ref(), event.actor, deriver.time, subject);
        assert_eq!(hex(&object_id("commit", &[text.as_bytes()])), COMMITS[at]);
        let read = Commit::read(text.as_bytes()).unwrap();
        assert_eq!((read.seq, read.unsigned == text, read.signature.is_none()), (at as u64 + 1, true, true));
        parent = from_hex(COMMITS[at]);
    }
    assert!(line.findings.is_empty());
    assert_eq!(hex(line.hash_at(3).unwrap()), "b58139fd8bbf0445fa0cfda81e089c7c836f6210cc0908a294d1e4c382862cff");
}

#[test]
fn a_withheld_event_has_the_same_hash() {
    let header = r#"{"actor":"user","data_sha256":"617ccc2cf7cfcc564a2d37abf31cd08d3d49198a46cbffa65528293b21d5ea7a","epoch":1,"prev":"bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29","seq":2,"session":"demo","ts":"2026-01-02T03:04:06.000Z","turn":"t1","type":"message","v":1}"#;
    let (mut one, mut other) = (Vec::new(), Vec::new());
    let withheld = Event::read(header.as_bytes(), &mut one).unwrap();
    assert_eq!(withheld.hash, Event::read(EVENTS[1].as_bytes(), &mut other).unwrap().hash);
    assert!(withheld.data.is_none());
}

/// Whatever the bytes are, nothing ends the program.
#[test]
fn hostile_bytes() {
    let commit = format!(
        "tree {0}\nparent {0}\nauthor a <a@gitjournal.invalid> 7 +0000\ncommitter gitjournal \
         <gitjournal@gitjournal.invalid> 7 +0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n\
         \na.b #7\n\nSession: s\nEvent-Hash: sha256:{1}\n",
        "1".repeat(40),
        "2".repeat(64)
    );
    assert!(Commit::read(commit.as_bytes()).is_some_and(|read| read.signature.is_some()));
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let signers =
        format!("a namespaces=\"*x,?\",valid-after=\"20260101Z\",foo ssh-ed25519 {key} b\n\n#\nb ssh-ed25519 {key}\n");
    assert!(read_lines(&signers, read_signer).is_some_and(|signers| signers.len() == 2));
    let tree = [b"100644 00000003.1\0".as_slice(), &[7; 20], b"100644 00000003.json\0", &[0; 20]].concat();
    let seeds = [EVENTS[0], EVENTS[1], EVENTS[2], &commit, &signers].map(str::as_bytes);
    let seeds = [&seeds[..], &[&tree[..]]].concat();
    for text in mutations(&seeds, 60_000) {
        let mut nodes = Vec::new();
        if let Ok(event) = Event::read(&text, &mut nodes) {
            Line::new(&Arc::new(Trust::default()), None, None).push(&event, "");
        }
        // Taking apart and writing again gives the same, or nothing.
        if let Some(read) = Commit::read(&text) {
            assert!(read.signature.is_some() || read.unsigned.as_bytes() == text);
        }
        let entries = tree_entries(&text).map_or(0, |entries| entries.len());
        assert!(leaf_entries(&text).is_none_or(|leaf| leaf.len() == entries));
        if let Ok(text) = std::str::from_utf8(&text) {
            read_lines(text, read_signer);
            read_lines(text, read_key);
            assert!(verify(text, "git", b"", None).is_none());
        }
    }
}
