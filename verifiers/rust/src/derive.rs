//! What follows from events: trees (section 5 of format.md) and commits (section 6 of format.md).

use crate::Id;
use crate::event::{Event, is_actor, is_hex, is_name, is_type};
use crate::sign::{object_hash, object_id};
use sha1::{Digest, Sha1};

/// One entry of a leaf tree: `SSSSSSSS.json` or `SSSSSSSS.<k>`. Sorts as git sorts the names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub seq: u64,
    /// `json`, or the digits of k, filled up with zero bytes.
    suffix: [u8; 9],
    pub id: Id,
}

impl Entry {
    /// k, None for the event.
    pub fn number(&self) -> Option<u64> {
        let end = self.suffix.iter().position(|byte| *byte == 0).unwrap_or(self.suffix.len());
        std::str::from_utf8(&self.suffix[..end]).ok()?.parse().ok()
    }
}

/// Mode, name and id of an entry of a tree.
type TreeEntry<'a> = (&'a [u8], &'a [u8], Id);

/// The entries of a tree; None if it is cut or an entry has no mode, name or zero byte.
pub fn tree_entries(tree: &[u8]) -> Option<Vec<TreeEntry<'_>>> {
    let mut entries = Vec::new();
    let mut rest = tree;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let space = rest[..end].iter().position(|byte| *byte == b' ')?;
        let (id, after) = rest[end + 1..].split_first_chunk()?;
        if space == 0 || space + 1 == end {
            return None;
        }
        entries.push((&rest[..space], &rest[space + 1..end], *id));
        rest = after;
    }
    Some(entries)
}

/// The entries of a leaf tree in order; None if it is none.
pub fn leaf_entries(tree: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for (mode, name, id) in tree_entries(tree)? {
        let (stem, end) = name.split_at_checked(8)?;
        let end = end.strip_prefix(b".")?;
        let is_number = end.iter().all(u8::is_ascii_digit) && end.len() <= 9 && !end.starts_with(b"0");
        if mode != b"100644" || !stem.iter().all(u8::is_ascii_digit) || end.is_empty() || (end != b"json" && !is_number)
        {
            return None;
        }
        let mut suffix = [0; 9];
        suffix[..end.len()].copy_from_slice(end);
        entries.push(Entry { seq: std::str::from_utf8(stem).ok()?.parse().ok()?, suffix, id });
    }
    entries.sort_unstable();
    let twice = entries.windows(2).any(|two| (two[0].seq, two[0].suffix) == (two[1].seq, two[1].suffix));
    (!twice).then_some(entries)
}

/// The three trees of an event, leaf first, with what is needed to compare them with bytes.
pub struct Trees {
    pub ids: [Id; 3],
    leaf_size: usize,
}

/// The trees and commit times of a line, event by event.
pub struct Deriver {
    leaf: Vec<u8>,
    /// The upper trees up to the id of their last entry, and the hash of that much.
    middle: Vec<u8>,
    root: Vec<u8>,
    middle_hash: Sha1,
    root_hash: Sha1,
    newest: Option<[Id; 3]>,
    pub time: u64,
}

impl Default for Deriver {
    fn default() -> Self {
        let empty = || object_hash("tree", 0);
        let (middle_hash, root_hash) = (empty(), empty());
        Deriver { leaf: vec![], middle: vec![], root: vec![], middle_hash, root_hash, newest: None, time: 0 }
    }
}

impl Deriver {
    /// The next event; `entries` are those of its leaf that belong to it.
    pub fn push(&mut self, event: &Event, entries: &[Entry]) -> Trees {
        let seq = event.seq;
        if self.newest.is_none() || seq.is_multiple_of(100) {
            self.turn_page(seq);
        }
        for entry in entries {
            let end = entry.suffix.iter().position(|byte| *byte == 0).unwrap_or(entry.suffix.len());
            self.leaf.extend(format!("100644 {seq:08}.").as_bytes());
            self.leaf.extend(&entry.suffix[..end]);
            self.leaf.push(0);
            self.leaf.extend(entry.id);
        }
        let leaf = object_id("tree", &self.leaf);
        let middle: Id = self.middle_hash.clone().chain_update(leaf).finalize().into();
        let root: Id = self.root_hash.clone().chain_update(middle).finalize().into();
        self.newest = Some([leaf, middle, root]);
        self.time = self.time.max(event.time);
        Trees { ids: [leaf, middle, root], leaf_size: self.leaf.len() }
    }

    /// Begins a leaf, and a middle tree if the last one is full. The leaf and middle tree before do not change any more.
    fn turn_page(&mut self, seq: u64) {
        if let Some([leaf, middle, _]) = self.newest {
            self.middle.extend(leaf);
            if seq.is_multiple_of(10_000) {
                self.root.extend(middle);
            }
        }
        if self.newest.is_none() || seq.is_multiple_of(10_000) {
            self.middle.clear();
            self.root.extend(format!("40000 {:04}\0", seq / 10_000).as_bytes());
        }
        self.middle.extend(format!("40000 {:02}\0", seq / 100 % 100).as_bytes());
        self.leaf.clear();
        let begun = |tree: &[u8]| object_hash("tree", tree.len() as u64 + 20).chain_update(tree);
        self.middle_hash = begun(&self.middle);
        self.root_hash = begun(&self.root);
    }

    /// Leaf, middle and root tree, the upper ones up to the id of their last entry.
    pub fn page(&self) -> [Vec<u8>; 3] {
        [self.leaf.clone(), self.middle.clone(), self.root.clone()]
    }
}

impl Trees {
    /// The bytes, in parts, of the three trees; `page` is that of their leaf.
    pub fn bytes<'a>(&'a self, [leaf, middle, root]: &'a [Vec<u8>; 3]) -> [[&'a [u8]; 2]; 3] {
        [[&leaf[..self.leaf_size], b""], [middle, &self.ids[0]], [root, &self.ids[1]]]
    }
}

/// A commit without its signature. Hashes and ids are in hex.
pub fn commit_text(tree: &str, parent: Option<&str>, actor: &str, time: u64, subject: [&str; 4]) -> String {
    let [kind, seq, session, hash] = subject;
    let parent = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
    format!(
        "tree {tree}\n{parent}author {actor} <{actor}@gitjournal.invalid> {time} +0000\n\
         committer gitjournal <gitjournal@gitjournal.invalid> {time} +0000\n\
         \n{kind} #{seq}\n\nSession: {session}\nEvent-Hash: sha256:{hash}\n"
    )
}

/// A commit in the form of section 6 of format.md.
pub struct Commit<'a> {
    pub tree: &'a str,
    pub seq: u64,
    /// Event hash.
    pub hash: &'a str,
    /// Type, seq, session.
    pub says: [&'a str; 3],
    /// The armoured block.
    pub signature: Option<String>,
    /// The commit without it.
    pub unsigned: String,
}

impl<'a> Commit<'a> {
    /// Takes the commit apart and writes it again: the same bytes, so it is in the form.
    pub fn read(raw: &'a [u8]) -> Option<Commit<'a>> {
        let text = std::str::from_utf8(raw).ok()?;
        let (header, message) = text.split_once("\n\n")?;
        let tree = between(header, "tree ", "\n").filter(|tree| is_hex(tree, 40))?;
        let has_parent = header.get(46..).is_some_and(|rest| rest.starts_with("parent "));
        let parent = between(header, "\nparent ", "\n").filter(|parent| has_parent && is_hex(parent, 40));
        let actor = between(header, "\nauthor ", " ").filter(|actor| is_actor(actor))?;
        let time: u64 = between(header, "> ", " ").filter(|time| time.len() <= 12)?.parse().ok()?;
        let (kind, rest) = message.split_once(" #").filter(|(kind, _)| is_type(kind))?;
        let (seq_text, rest) = rest.split_once("\n\nSession: ")?;
        let seq: u64 = seq_text.parse().ok().filter(|seq| (1..=99_999_999).contains(seq))?;
        let (session, rest) = rest.split_once("\nEvent-Hash: sha256:").filter(|(session, _)| is_name(session, 200))?;
        let hash = rest.strip_suffix('\n').filter(|hash| is_hex(hash, 64))?;
        let unsigned = commit_text(tree, parent, actor, time, [kind, &seq.to_string(), session, hash]);
        let signature = header.split_once("\ngpgsig ").map(|(_, block)| block);
        let with_signature = match signature {
            Some(block) if is_block(block) => unsigned.replacen("\n\n", &format!("\ngpgsig {block}\n\n"), 1),
            _ => unsigned.clone(),
        };
        let signature = signature.map(|block| block.replace("\n ", "\n"));
        let says = [kind, seq_text, session];
        (with_signature == text).then_some(Commit { tree, seq, hash, says, signature, unsigned })
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    rest.find(after).map(|end| &rest[..end])
}

/// A signature as it stands in a commit: one block, lines after the first indented by one space.
fn is_block(block: &str) -> bool {
    let inner = block.strip_prefix("-----BEGIN SSH SIGNATURE-----\n ");
    let inner = inner.and_then(|inner| inner.strip_suffix("\n -----END SSH SIGNATURE-----"));
    let is_line = |line: &str| {
        !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    inner.is_some_and(|inner| inner.split("\n ").all(is_line))
}
