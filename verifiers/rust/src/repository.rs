//! A line in git (section 8). Leaf by leaf its events are checked, and what they derive; a second thread looks meanwhile
//! for the events of the next leaf, and for the trees and commits that those of the last one derive.

use crate::base::{Code, Id, from_hex, hex, object_id};
use crate::derive::{Commit, Derived, Deriver, Entry, commit_text, leaf_entries, tree_entries};
use crate::event::{Event, encode};
use crate::git::{COMMIT, EVENT, Kind, Objects, SIDE_FILE, TREE};
use crate::line::Line;
use crate::pack::{Packs, Unpacker};
use crate::refs::read_regular;
use crate::sign::{Trust, verify};
use ring::digest::{Context, SHA256};
use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::{io, thread};

/// A repository: its good objects, for this thread and for the other one, and what its file `shallow` holds.
pub struct Repository<'p> {
    objects: Objects<'p>,
    other: Unpacker<'p>,
    shallow: HashSet<Id>,
}

impl<'p> Repository<'p> {
    pub fn open(path: &Path, packs: &'p Packs) -> io::Result<Self> {
        let shallow = read_regular(&path.join("shallow"))?.split(|byte| *byte == b'\n').filter_map(from_hex).collect();
        Ok(Repository { objects: Objects::open(path, packs)?, other: Unpacker::new(packs), shallow })
    }

    /// Checks one line; `head` is what its ref holds.
    pub fn check(&mut self, trust: &Arc<Trust>, name: &str, head: Option<Id>) -> Line {
        let Repository { objects, other, shallow } = self;
        let mut line = Line::new(trust, Some(name.to_string()), head);
        let Some(head) = head else {
            line.find("wrong-ref", None, "");
            return line;
        };
        // The shortcut comes first: if all derived objects are good and the last commit is the head, a walk would find these.
        for shortcut in [true, false] {
            line = Line::new(trust, Some(name.to_string()), Some(head));
            let (walked, deriver) = (Vec::new(), Deriver::default());
            let mut check = Check { objects, line, shortcut, walked, edge: None, deriver, deriving: true };
            let holds = check.run(head, shallow, other);
            line = check.line;
            if let Err(code) = holds {
                line.find(code, None, &hex(&head));
            }
            if holds != Ok(false) {
                break;
            }
        }
        if line.spelled().is_some_and(|spelled| !name.ends_with(&format!("/{spelled}"))) {
            line.find("wrong-ref", None, &hex(&head));
        }
        // A line of another session than its ref is compared with no other.
        line.session = line.session.filter(|session| name.rsplit('/').nth(1) == Some(&encode(session)));
        line
    }
}

/// A leaf tree, or what is wrong on the way to it: code, and id of the tree.
type Leaf = Result<Vec<Entry>, (Code, String)>;
/// A middle or root tree: its id, and its folders or the code of what is wrong.
type Upper = (Id, Result<HashMap<Vec<u8>, Id>, Code>);
/// The bytes of events by their ids.
type Events = HashMap<Id, Vec<u8>>;
/// Seq, id and kind of an object that was not found good.
type Open = (u64, Id, &'static Kind);

struct Check<'c, 'p> {
    objects: &'c mut Objects<'p>,
    line: Line,
    shortcut: bool,
    /// Ids of commits: of those that were derived (the shortcut), or of those that the walk found, from the head back; and
    /// the parent that the last one of them names.
    walked: Vec<Id>,
    edge: Option<Id>,
    deriver: Deriver,
    deriving: bool,
}

impl Check<'_, '_> {
    /// The code of what is wrong with the head. False: the shortcut does not do.
    fn run(&mut self, head: Id, shallow: &HashSet<Id>, other: &mut Unpacker) -> Result<bool, Code> {
        // With git in any case: what is no repository to git has no objects.
        let mut bytes = Vec::new();
        self.objects.ask_git(&head, &COMMIT, &mut |piece| bytes.extend_from_slice(piece))?;
        let commit = Commit::read(&bytes).ok_or("bad-commit")?;
        let last = commit.seq;
        self.line.head = last;
        if !self.shortcut {
            self.walk(head, shallow);
        }
        let places = |page: u64| (page * 100).max(1)..=(page * 100 + 99).min(last);
        let root = self.upper(commit.tree);
        let mut middle = root.clone();
        let mut leaf = self.leaf(&root, &mut middle, 0);
        let mut events = Events::new();
        for page in 0..=last / 100 {
            let next = self.leaf(&root, &mut middle, page + 1);
            let wanted: Vec<Id> = places(page + 1).filter_map(|seq| event_id(entries_of(&next, seq))).collect();
            let derived = self.deriver.take();
            let (found, open) = thread::scope(|scope| {
                let looking = scope.spawn(|| look(other, &wanted, &derived));
                self.page(places(page), &leaf, take(&mut events));
                looking.join().expect("no panic")
            });
            self.settle(open);
            if self.line.is_full() || (self.shortcut && !self.deriving) {
                break;
            }
            (leaf, events) = (next, found);
        }
        let (_, open) = look(other, &[], &self.deriver.take());
        self.settle(open);
        Ok(!self.shortcut || (self.deriving && self.walked.last() == Some(&head)))
    }

    /// walk(head, n): by the parents.
    fn walk(&mut self, head: Id, shallow: &HashSet<Id>) {
        self.edge = Some(head);
        for seq in (1..=self.line.head).rev() {
            let last = self.walked.last();
            let Some(at) = self.edge else {
                let id = last.map(|id| hex(id)).unwrap_or_default();
                return self.line.find("bad-commit", Some(seq + 1), &id);
            };
            match self.objects.read(&at, &COMMIT) {
                Ok(commit) => {
                    let second = commit.split(|byte| *byte == b'\n').nth(1);
                    self.edge = second.and_then(|line| from_hex(line.strip_prefix(b"parent ")?));
                    self.walked.push(at);
                }
                Err("missing-object") if last.is_some_and(|child| shallow.contains(child)) => {
                    return self.line.left_out = seq;
                }
                Err(code) => return self.line.find(code, Some(seq), &hex(&at)),
            }
        }
        if let Some(parent) = self.edge.take() {
            self.line.find("bad-commit", Some(1), &hex(&parent));
        }
    }

    fn upper(&mut self, id: Id) -> Upper {
        let folders = self.objects.read(&id, &TREE).and_then(|tree| {
            let mut folders = HashMap::new();
            // Only names of digits are looked for, so that a huge tree of others takes no room. The first one counts.
            for (mode, name, id) in tree_entries(&tree).ok_or("bad-tree")? {
                if mode == b"40000" && matches!(name.len(), 2 | 4) {
                    folders.entry(name.to_vec()).or_insert(id);
                }
            }
            Ok(folders)
        });
        (id, folders)
    }

    /// The leaf tree of events `page` * 100 and on. `middle` is the middle tree that was read last.
    fn leaf(&mut self, root: &Upper, middle: &mut Upper, page: u64) -> Leaf {
        let id = look_up(root, &format!("{:04}", page / 100))?;
        if middle.0 != id {
            *middle = self.upper(id);
        }
        let id = look_up(middle, &format!("{:02}", page % 100))?;
        let tree = self.objects.read(&id, &TREE);
        tree.and_then(|tree| leaf_entries(&tree).ok_or("bad-tree")).map_err(|code| (code, hex(&id)))
    }

    fn page(&mut self, places: RangeInclusive<u64>, leaf: &Leaf, mut events: Events) {
        if let Err((code, id)) = leaf {
            self.line.find(code, Some(*places.start()), id);
            self.deriving = false;
        }
        for seq in places {
            match leaf {
                Ok(_) if !self.line.is_full() => self.event(seq, entries_of(leaf, seq), &mut events),
                _ => self.line.lose(),
            }
        }
    }

    fn event(&mut self, seq: u64, entries: &[Entry], events: &mut Events) {
        let id = event_id(entries);
        let name = id.map(|id| hex(&id)).unwrap_or_default();
        let bytes = match id {
            Some(id) => events.remove(&id).map_or_else(|| self.objects.read(&id, &EVENT), Ok),
            None => Err("missing-object"),
        };
        let mut nodes = Vec::new();
        match bytes.as_ref().map_err(|code| *code).and_then(|bytes| Event::read(bytes, &mut nodes)) {
            Ok(event) => {
                self.line.push(&event, &name);
                self.files(seq, &event, entries);
                self.deriving &= event.seq == seq;
                if self.deriving {
                    self.compare(&event, entries);
                }
            }
            Err(code) => {
                self.line.find(code, Some(seq), &name);
                self.line.lose();
                self.deriving = false;
            }
        }
    }

    /// files(e).
    fn files(&mut self, seq: u64, event: &Event, entries: &[Entry]) {
        let mut found: Vec<(u64, Id)> = entries.iter().filter_map(|entry| Some((entry.number?, entry.id))).collect();
        found.sort_unstable();
        if !found.iter().map(|file| file.0).eq(1..=event.files.len() as u64) {
            return self.line.find("bad-file", Some(seq), &hex(&event.hash));
        }
        for ((_, id), file) in found.into_iter().zip(&event.files) {
            let (mut hash, mut size) = (Context::new(&SHA256), 0);
            let answer = self.objects.stream(&id, &SIDE_FILE, &mut |piece| {
                hash.update(piece);
                size += piece.len() as u64;
            });
            match answer {
                Ok(()) if size == file.size && hash.finish().as_ref() == file.sha256 => self.line.side_files += 1,
                answer => self.line.find(answer.err().unwrap_or("bad-file"), Some(seq), &hex(&id)),
            }
        }
    }

    /// compare(e).
    fn compare(&mut self, event: &Event, entries: &[Entry]) {
        let trees = self.deriver.push(event, entries);
        let place = (self.line.head - event.seq) as usize;
        let before = if self.shortcut { self.walked.last() } else { self.walked.get(place + 1) };
        let subject = [event.kind, &event.seq.to_string(), &event.session, &hex(&event.hash)];
        let parent = before.or(self.edge.as_ref());
        let derived = commit_text(&trees[2], parent, event.actor, self.deriver.time, subject);
        let id = object_id("commit", &[derived.as_bytes()]);
        match self.walked.get(place).copied() {
            _ if self.shortcut => self.walked.push(id),
            Some(actual) if actual == id => {}
            Some(actual) => {
                if let Err(code) = self.signed(event.seq, &derived, subject, actual) {
                    self.line.find(code, Some(event.seq), &hex(&actual));
                    self.deriving = false;
                    return;
                }
            }
            None => return,
        }
        self.deriver.want(event.seq, trees, self.shortcut.then_some((id, derived)));
    }

    /// The commit is the derived one with a signature, which is checked. The code of what it is else.
    fn signed(&mut self, seq: u64, derived: &str, subject: [&str; 4], actual: Id) -> Result<(), Code> {
        let bytes = self.objects.read(&actual, &COMMIT)?;
        let commit = Commit::read(&bytes).ok_or("bad-commit")?;
        match commit.signature {
            // The rest of the form has one spelling, so with that signature the derived commit has these bytes.
            Some(signature) if commit.unsigned == derived => {
                let verified = verify(&signature, "git", derived.as_bytes(), None);
                self.line.signature(verified, "git", self.deriver.time, seq, (Some(seq), &hex(&actual)));
                Ok(())
            }
            _ if commit.says[3] != subject[3] => Err("bad-hash"),
            _ if commit.says != subject => Err("bad-commit"),
            _ => Err("bad-tree"),
        }
    }

    /// What the other thread has not found good. The shortcut ends at the first that is not.
    fn settle(&mut self, open: Vec<Open>) {
        for (seq, id, kind) in open {
            if let Err(code) = self.objects.read(&id, kind) {
                self.line.find(code, Some(seq), &hex(&id));
                self.deriving &= !self.shortcut;
                if self.shortcut {
                    return;
                }
            }
        }
    }
}

/// In another thread: the events that are good, and what is not there of what was derived. This, and the other events,
/// `Check` looks for again, and with git.
fn look(unpacker: &mut Unpacker, events: &[Id], derived: &Derived) -> (Events, Vec<Open>) {
    let mut open = Vec::new();
    derived.each(|seq, id, kind, parts| {
        if !unpacker.has(id, kind.0, parts) {
            open.push((seq, *id, kind));
        }
    });
    let events = events.iter().filter_map(|id| Some((*id, unpacker.good(id, EVENT.0)?)));
    (events.collect(), open)
}

fn look_up(upper: &Upper, name: &str) -> Result<Id, (Code, String)> {
    match &upper.1 {
        Ok(folders) => folders.get(name.as_bytes()).copied().ok_or(("missing-object", String::new())),
        Err(code) => Err((code, hex(&upper.0))),
    }
}

/// The entries of one event: side files first, then the event.
fn entries_of(leaf: &Leaf, seq: u64) -> &[Entry] {
    let entries = leaf.as_deref().unwrap_or_default();
    let from = entries.partition_point(|entry| entry.seq < seq);
    let to = entries.partition_point(|entry| entry.seq <= seq);
    &entries[from..to]
}

fn event_id(entries: &[Entry]) -> Option<Id> {
    entries.last().filter(|entry| entry.number.is_none()).map(|entry| entry.id)
}
