//! What follows from events: trees (section 5 of format.md) and commits (section 6 of format.md).

use crate::base::{Id, from_hex, hex, object_hash, object_id};
use crate::event::{Event, is_actor, is_name, is_type};
use crate::git::{COMMIT, Kind, TREE};
use sha1::{Digest, Sha1};

/// One entry of a leaf tree, `SSSSSSSS.json` or `SSSSSSSS.<k>`. Sorts as git sorts the names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    name: String,
    pub seq: u64,
    /// k, None for the event.
    pub number: Option<u64>,
    pub id: Id,
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
        (space > 0 && space + 1 < end).then_some(())?;
        entries.push((&rest[..space], &rest[space + 1..end], *id));
        rest = after;
    }
    Some(entries)
}

/// The entries of a leaf tree in order; None if it is none.
pub fn leaf_entries(tree: &[u8]) -> Option<Vec<Entry>> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut entries = Vec::new();
    for (mode, name, id) in tree_entries(tree)? {
        let name = std::str::from_utf8(name).ok()?;
        let (stem, end) = name.split_once('.').filter(|(stem, _)| stem.len() == 8 && is_number(stem))?;
        let is_file = (1..=9).contains(&end.len()) && is_number(end) && !end.starts_with('0');
        (mode == b"100644" && (end == "json" || is_file)).then_some(())?;
        entries.push(Entry { name: name.to_string(), seq: stem.parse().ok()?, number: end.parse().ok(), id });
    }
    entries.sort_unstable();
    entries.is_sorted_by(|one, next| one.name != next.name).then_some(entries)
}

/// The trees and commit times of a line, event by event.
#[derive(Default)]
pub struct Deriver {
    /// All entries of the leaf; those of the upper trees but for the last one, which still changes.
    leaf: Vec<u8>,
    middle: Vec<u8>,
    root: Vec<u8>,
    last_of_middle: Vec<u8>,
    last_of_root: Vec<u8>,
    wanted: Vec<Wanted>,
    /// Git's hash of the middle tree up to its last entry.
    begun: Sha1,
    pub time: u64,
}

/// What must be there: what the events of one leaf derive. (A leaf only grows, and of the upper trees only the last entry
/// changes.)
#[derive(Default)]
pub struct Derived {
    leaf: Vec<u8>,
    middle: Vec<u8>,
    root: Vec<u8>,
    events: Vec<Wanted>,
}

/// Of one event: seq, size of the leaf, the ids of leaf, middle and root tree, and perhaps the commit.
type Wanted = (u64, usize, [Id; 3], Option<(Id, String)>);

impl Derived {
    /// All objects: seq, id, kind, and the parts of its bytes.
    pub fn each(&self, mut see: impl FnMut(u64, &Id, &'static Kind, &[&[u8]])) {
        for (seq, size, [leaf, middle, root], commit) in &self.events {
            see(*seq, leaf, &TREE, &[&self.leaf[..*size]]);
            see(*seq, middle, &TREE, &[&self.middle, &middle_entry(*seq, leaf)]);
            see(*seq, root, &TREE, &[&self.root, &root_entry(*seq, middle)]);
            if let Some((id, text)) = commit {
                see(*seq, id, &COMMIT, &[text.as_bytes()]);
            }
        }
    }
}

fn middle_entry(seq: u64, leaf: &Id) -> Vec<u8> {
    [format!("40000 {:02}\0", seq / 100 % 100).as_bytes(), leaf].concat()
}

fn root_entry(seq: u64, middle: &Id) -> Vec<u8> {
    [format!("40000 {:04}\0", seq / 10_000).as_bytes(), middle].concat()
}

impl Deriver {
    /// Leaf, middle and root tree after the next event; `entries` are those of its leaf that belong to it.
    pub fn push(&mut self, event: &Event, entries: &[Entry]) -> [Id; 3] {
        if event.seq.is_multiple_of(100) {
            self.leaf.clear();
            self.middle.append(&mut self.last_of_middle);
        }
        if event.seq.is_multiple_of(10_000) {
            self.middle.clear();
            self.root.append(&mut self.last_of_root);
        }
        if self.last_of_middle.is_empty() {
            self.begun = object_hash("tree", self.middle.len() as u64 + 29).chain_update(&self.middle);
        }
        for entry in entries {
            self.leaf.extend([format!("100644 {}\0", entry.name).as_bytes(), &entry.id].concat());
        }
        let leaf = object_id("tree", &[&self.leaf]);
        self.last_of_middle = middle_entry(event.seq, &leaf);
        let middle: Id = self.begun.clone().chain_update(&self.last_of_middle).finalize().into();
        self.last_of_root = root_entry(event.seq, &middle);
        self.time = self.time.max(event.time);
        [leaf, middle, object_id("tree", &[&self.root, &self.last_of_root])]
    }

    /// The trees of the event that came last, and perhaps its commit, must be there.
    pub fn want(&mut self, seq: u64, trees: [Id; 3], commit: Option<(Id, String)>) {
        self.wanted.push((seq, self.leaf.len(), trees, commit));
    }

    /// What is wanted of one leaf: to be taken before an event of another comes.
    pub fn take(&mut self) -> Derived {
        let (leaf, middle, root) = (self.leaf.clone(), self.middle.clone(), self.root.clone());
        Derived { leaf, middle, root, events: std::mem::take(&mut self.wanted) }
    }
}

/// A commit without its signature. Of type, seq, session, and event hash in hex.
pub fn commit_text(tree: &Id, parent: Option<&Id>, actor: &str, time: u64, subject: [&str; 4]) -> String {
    let [kind, seq, session, hash] = subject;
    let parent = parent.map(|parent| format!("parent {}\n", hex(parent))).unwrap_or_default();
    format!(
        "tree {}\n{parent}author {actor} <{actor}@gitjournal.invalid> {time} +0000\n\
         committer gitjournal <gitjournal@gitjournal.invalid> {time} +0000\n\
         \n{kind} #{seq}\n\nSession: {session}\nEvent-Hash: sha256:{hash}\n",
        hex(tree)
    )
}

/// A commit in the form of section 6 of format.md.
pub struct Commit<'a> {
    pub tree: Id,
    pub seq: u64,
    /// Type, seq, session, event hash.
    pub says: [&'a str; 4],
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
        let tree = between(header, "tree ", "\n").and_then(from_hex)?;
        let parent = between(header, "\nparent ", "\n").and_then(from_hex);
        let actor = between(header, "\nauthor ", " ").filter(|actor| is_actor(actor))?;
        let time: u64 = between(header, "> ", " ").filter(|time| time.len() <= 12)?.parse().ok()?;
        let (kind, rest) = message.split_once(" #").filter(|(kind, _)| is_type(kind))?;
        let (seq_text, rest) = rest.split_once("\n\nSession: ")?;
        let seq: u64 = seq_text.parse().ok().filter(|seq| (1..=99_999_999).contains(seq))?;
        let (session, rest) = rest.split_once("\nEvent-Hash: sha256:").filter(|(session, _)| is_name(session, 200))?;
        let hash = rest.strip_suffix('\n').filter(|hash| from_hex::<32>(hash).is_some())?;
        let unsigned = commit_text(&tree, parent.as_ref(), actor, time, [kind, &seq.to_string(), session, hash]);
        let block = header.split_once("\ngpgsig ").map(|(_, block)| block).filter(|block| is_block(block));
        let again = block.map(|block| unsigned.replacen("\n\n", &format!("\ngpgsig {block}\n\n"), 1));
        let signature = block.map(|block| block.replace("\n ", "\n"));
        let says = [kind, seq_text, session, hash];
        (again.as_ref().unwrap_or(&unsigned) == text).then_some(Commit { tree, seq, says, signature, unsigned })
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// A signature as it stands in a commit: one block, lines after the first indented by one space.
fn is_block(block: &str) -> bool {
    let inner = block.strip_prefix("-----BEGIN SSH SIGNATURE-----\n ");
    let inner = inner.and_then(|inner| inner.strip_suffix("\n -----END SSH SIGNATURE-----"));
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    inner.is_some_and(|inner| inner.split("\n ").all(|line| !line.is_empty() && line.bytes().all(is_digit)))
}
