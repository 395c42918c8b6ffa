//! A line in git (section 8).
//!
//! Leaf by leaf its events are asked for, and what those of an earlier leaf derive, with their side files. That is looked for
//! while the events of the leaves between are checked.

use crate::derive::{Commit, Deriver, Entry, Trees, commit_text, leaf_entries, tree_entries};
use crate::event::Event;
use crate::git::{COMMIT, EVENT, Git, Ref, SIDE_FILE, TREE};
use crate::json::Node;
use crate::line::Line;
use crate::sign::{Trust, object_id, verify};
use crate::{Code, Id, from_hex, hex};
use ring::digest::{Context, SHA256};
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::take;
use std::ops::RangeInclusive;

/// Checks one line. `shallow` is what the file of this name holds.
pub fn check<'t>(git: &mut Git, trust: &'t Trust, name: &Ref, head: Id, shallow: &HashSet<Id>) -> Line<'t> {
    // The shortcut: if all derived objects are good and the last one is the head, a walk would have found just these.
    let mut check = Check::new(git, trust, name, head);
    if !check.run(name, None) {
        let known = take(&mut check.settled);
        check = Check::new(git, trust, name, head);
        check.git.forget();
        check.run(name, Some((&known, shallow)));
    }
    // After 1,000 findings there are answers that nobody has read.
    check.git.forget();
    check.line
}

/// What the walk found.
struct Walk {
    /// Ids of the commits from the head back.
    ids: Vec<Id>,
    /// The place of the last one of them.
    first: u64,
    /// The parent that this one names; None at place 1 in any case.
    parent: Option<Id>,
}

/// An event whose derived objects are still to be looked at.
struct Pending {
    seq: u64,
    time: u64,
    /// The derived commit, unsigned.
    commit: String,
    trees: Trees,
    /// The commit to be read: the derived one in the shortcut, else the one that the walk found, if it is another.
    look: Option<Id>,
}

struct PendingFile {
    seq: u64,
    id: Id,
    sha256: String,
    size: u64,
}

/// Leaves whose events are asked for in advance, so that no thread has to wait for another at each step.
const AHEAD: u64 = 4;

/// What the events of a leaf need.
#[derive(Default)]
struct Page {
    pending: Vec<Pending>,
    files: Vec<PendingFile>,
    trees: [Vec<u8>; 3],
}

/// A middle or root tree: its id, and its folders or the code of what is wrong.
type Upper = (Id, Result<HashMap<Vec<u8>, Id>, Code>);
/// Code and id of what is wrong with a tree on the way to an event.
type TreeFault = (Code, String);

struct Check<'g, 't> {
    git: &'g mut Git,
    line: Line<'t>,
    head: Id,
    deriver: Deriver,
    deriving: bool,
    /// None: this is the shortcut.
    walk: Option<Walk>,
    /// Only in the shortcut: the newest derived commit, and those that are good, with their trees.
    newest: Option<Id>,
    settled: Vec<Id>,
    /// False from the first commit on that is not the derived one.
    comparing: bool,
    page: Page,
    middle: Option<Upper>,
    bytes: Vec<u8>,
    nodes: Vec<Node>,
}

impl<'g, 't> Check<'g, 't> {
    fn new(git: &'g mut Git, trust: &'t Trust, name: &Ref, head: Id) -> Self {
        let mut line = Line::new(trust, Some(name.name.clone()));
        line.commit = Some(head);
        Check {
            git,
            line,
            head,
            deriver: Deriver::default(),
            deriving: true,
            walk: None,
            newest: None,
            settled: Vec::new(),
            comparing: true,
            page: Page::default(),
            middle: None,
            bytes: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// False: the shortcut does not do.
    fn run(&mut self, name: &Ref, walk: Option<(&[Id], &HashSet<Id>)>) -> bool {
        let head = self.head;
        // With git in any case: what is no repository to git has no objects.
        self.bytes.clear();
        let bytes = &mut self.bytes;
        if let Err(code) = self.git.read(&head, &COMMIT, &mut |piece| bytes.extend_from_slice(piece)) {
            self.line.find(code, None, &hex(&head));
            return true;
        }
        let said = Commit::read(&self.bytes).and_then(|commit| Some((commit.seq, from_hex(commit.tree.as_bytes())?)));
        let Some((last, root)) = said else {
            self.line.find("bad-commit", None, &hex(&head));
            return true;
        };
        self.line.head = last;
        if let Some((known, shallow)) = walk {
            self.walk = Some(self.walk(last, known, shallow));
        }
        if !self.events(last, root) {
            return false;
        }
        if self.line.is_full() {
            return true;
        }
        if self.line.spelled().is_some_and(|(session, branch)| session != name.session || branch != name.branch) {
            self.line.find("wrong-ref", None, &hex(&head));
        }
        self.walk.is_some() || self.newest == Some(head)
    }

    /// walk(head, n). `known` are derived commits, by place, that are good objects: from one of them on, the walk would
    /// find those before it.
    fn walk(&mut self, last: u64, known: &[Id], shallow: &HashSet<Id>) -> Walk {
        let mut walk = Walk { ids: Vec::new(), first: last + 1, parent: None };
        let mut at = self.head;
        for seq in (1..=last).rev() {
            if known.get(seq as usize - 1) == Some(&at) {
                walk.ids.extend(known[..seq as usize].iter().rev());
                return Walk { first: 1, parent: None, ..walk };
            }
            if let Err(code) = self.git.object(&at, &COMMIT, &mut self.bytes) {
                if code == "missing-object" && walk.ids.last().is_some_and(|child| shallow.contains(child)) {
                    self.line.left_out = seq;
                } else {
                    self.line.find(code, Some(seq), &hex(&at));
                }
                return Walk { parent: Some(at), ..walk };
            }
            walk.ids.push(at);
            walk.first = seq;
            let second = self.bytes.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
            match second.strip_prefix(b"parent ").and_then(from_hex) {
                Some(parent) => at = parent,
                None if seq == 1 => return walk,
                None => {
                    self.line.find("bad-commit", Some(seq), &hex(&at));
                    return walk;
                }
            }
        }
        self.line.find("bad-commit", Some(1), &hex(&at));
        walk
    }

    /// All events of the line, leaf by leaf. False: the shortcut does not do.
    fn events(&mut self, last: u64, root: Id) -> bool {
        let root = self.read_upper(root);
        let places = |page: u64| (page * 100).max(1)..=(page * 100 + 99).min(last);
        let (mut leaves, mut asked) = (VecDeque::new(), VecDeque::new());
        for page in 0..last / 100 + 1 + AHEAD {
            // What is asked for in advance is answered in this order.
            if page >= AHEAD {
                asked.push_back(take(&mut self.page));
                asked.back().iter().for_each(|page| self.ask_page(page));
            }
            if page <= last / 100 {
                let leaf = self.leaf_id(&root, page).and_then(|id| self.read_leaf(id));
                self.ask_events(&leaf, places(page));
                leaves.push_back(leaf);
            }
            self.git.flush();
            let Some(page) = page.checked_sub(AHEAD) else { continue };
            if page >= AHEAD && !asked.pop_front().is_none_or(|page| self.settle(page)) {
                return false;
            }
            let leaf = leaves.pop_front().unwrap_or(Err(("", String::new())));
            if let Err((code, id)) = &leaf {
                self.line.find(code, Some(*places(page).start()), id);
            }
            for seq in places(page) {
                match leaf {
                    Ok(_) => self.event(seq, entries_of(&leaf, seq)),
                    Err(_) => self.lose(),
                }
                if self.line.is_full() {
                    return true;
                }
            }
            if self.walk.is_none() && !self.deriving {
                return false;
            }
            self.page.trees = self.deriver.page();
        }
        asked.push_back(take(&mut self.page));
        asked.back().iter().for_each(|page| self.ask_page(page));
        self.git.flush();
        asked.into_iter().all(|page| self.settle(page))
    }

    fn ask_events(&mut self, leaf: &Result<Vec<Entry>, TreeFault>, places: RangeInclusive<u64>) {
        for entries in places.map(|seq| entries_of(leaf, seq)) {
            event_entry(entries).iter().for_each(|entry| self.git.ask(&entry.id));
        }
    }

    fn read_upper(&mut self, id: Id) -> Upper {
        let mut folders = self.git.object(&id, &TREE, &mut self.bytes).map(|()| HashMap::new());
        if let Ok(folders_found) = &mut folders {
            match tree_entries(&self.bytes) {
                // Only names of digits are looked for, so that a huge tree of others takes no room. The first one counts.
                Some(entries) => entries
                    .into_iter()
                    .filter(|(mode, name, _)| *mode == b"40000" && matches!(name.len(), 2 | 4))
                    .for_each(|(_, name, id)| _ = folders_found.entry(name.to_vec()).or_insert(id)),
                None => folders = Err("bad-tree"),
            }
        }
        (id, folders)
    }

    /// The id of the leaf tree for events `page` * 100 and on. Reads the middle tree when it is another than before.
    fn leaf_id(&mut self, root: &Upper, page: u64) -> Result<Id, TreeFault> {
        let middle = look_up(root, &format!("{:04}", page / 100))?;
        let upper = self.middle.take().filter(|upper| upper.0 == middle).unwrap_or_else(|| self.read_upper(middle));
        look_up(self.middle.insert(upper), &format!("{:02}", page % 100))
    }

    fn read_leaf(&mut self, id: Id) -> Result<Vec<Entry>, TreeFault> {
        let answer = self.git.object(&id, &TREE, &mut self.bytes);
        answer.and_then(|()| leaf_entries(&self.bytes).ok_or("bad-tree")).map_err(|code| (code, hex(&id)))
    }

    fn lose(&mut self) {
        self.line.lose();
        self.deriving = false;
    }

    fn event(&mut self, seq: u64, entries: &[Entry]) {
        let Some(id) = event_entry(entries).map(|entry| entry.id) else {
            self.line.find("missing-object", Some(seq), "");
            return self.lose();
        };
        let (mut bytes, mut nodes) = (take(&mut self.bytes), take(&mut self.nodes));
        let answer = self.git.answer(&EVENT, &mut bytes);
        match answer.and_then(|()| Event::read(&bytes, &mut nodes)) {
            Ok(event) => {
                self.line.push(&event, Some(id));
                self.expect_files(seq, &event, entries);
                self.deriving &= event.seq == seq;
                if self.deriving {
                    self.derive(&event, entries);
                }
            }
            Err(code) => {
                self.line.find(code, Some(seq), &hex(&id));
                self.lose();
            }
        }
        (self.bytes, self.nodes) = (bytes, nodes);
    }

    /// files(e): their number; the contents are looked at by `settle`.
    fn expect_files(&mut self, seq: u64, event: &Event, entries: &[Entry]) {
        let mut found: Vec<(u64, Id)> = entries.iter().filter_map(|entry| Some((entry.number()?, entry.id))).collect();
        found.sort_unstable();
        if !found.iter().map(|file| file.0).eq(1..=event.files.len() as u64) {
            self.line.find("bad-file", Some(seq), &hex(&event.hash));
            return;
        }
        for ((_, id), file) in found.into_iter().zip(&event.files) {
            self.page.files.push(PendingFile { seq, id, sha256: file.sha256.clone(), size: file.size });
        }
    }

    /// What the event derives; `settle` compares.
    fn derive(&mut self, event: &Event, entries: &[Entry]) {
        let seq = event.seq;
        let trees = self.deriver.push(event, entries);
        let (actual, parent) = match &self.walk {
            None => (None, self.newest),
            Some(walk) if seq < walk.first => return,
            Some(walk) => {
                let place = walk.ids.len() - 1 - (seq - walk.first) as usize;
                (Some(walk.ids[place]), walk.ids.get(place + 1).copied().or(walk.parent))
            }
        };
        let time = self.deriver.time;
        let (tree, parent) = (hex(&trees.ids[2]), parent.map(|parent| hex(&parent)));
        let subject = [event.kind, &seq.to_string(), &event.session, &hex(&event.hash)];
        let commit = commit_text(&tree, parent.as_deref(), event.actor, time, subject);
        let id = object_id("commit", commit.as_bytes());
        if self.walk.is_none() {
            self.newest = Some(id);
        }
        let look = Some(actual.unwrap_or(id)).filter(|look| self.walk.is_none() || *look != id);
        self.page.pending.push(Pending { seq, time, commit, trees, look });
    }

    fn ask_page(&mut self, page: &Page) {
        for pending in &page.pending {
            pending.look.iter().chain(&pending.trees.ids).for_each(|id| self.git.ask(id));
        }
        page.files.iter().for_each(|file| self.git.ask(&file.id));
    }

    /// Looks at the answers for `ask_page`. False: the shortcut does not do.
    fn settle(&mut self, page: Page) -> bool {
        for pending in page.pending {
            if let Some(look) = pending.look {
                self.comparing = match self.walk {
                    None => self.git.answer_is(&COMMIT, &[pending.commit.as_bytes()]).is_ok(),
                    Some(_) => self.compare(&pending, look),
                };
            }
            for (id, parts) in pending.trees.ids.iter().zip(pending.trees.bytes(&page.trees)) {
                match self.git.answer_is(&TREE, &parts) {
                    Err(_) if self.walk.is_none() => return false,
                    Err(code) if self.comparing => self.line.find(code, Some(pending.seq), &hex(id)),
                    _ => {}
                }
            }
            if let (None, Some(derived)) = (&self.walk, pending.look) {
                if !self.comparing {
                    return false;
                }
                self.settled.push(derived);
            }
        }
        self.deriving &= self.comparing;
        for file in page.files {
            let (mut hash, mut size) = (Context::new(&SHA256), 0);
            let answer = self.git.stream(&SIDE_FILE, |piece| {
                hash.update(piece);
                size += piece.len() as u64;
            });
            match answer {
                Ok(()) if size == file.size && hex(hash.finish().as_ref()) == file.sha256 => self.line.side_files += 1,
                answer => self.line.find(answer.err().unwrap_or("bad-file"), Some(file.seq), &hex(&file.id)),
            }
            if self.line.is_full() {
                break;
            }
        }
        true
    }

    /// compare(e) for a commit that is not the derived one. False: nothing more is compared.
    fn compare(&mut self, pending: &Pending, actual: Id) -> bool {
        let answer = self.git.answer(&COMMIT, &mut self.bytes);
        if !self.comparing {
            return false;
        }
        let code = match answer.map(|()| (Commit::read(&self.bytes), Commit::read(pending.commit.as_bytes()))) {
            Ok((Some(commit), Some(derived))) => match commit.signature {
                // The rest of the form has one spelling, so with that signature the derived commit has these bytes.
                Some(signature) if commit.unsigned == pending.commit => {
                    let verified = verify(&signature, "git", pending.commit.as_bytes(), None);
                    let (seq, id) = (pending.seq, hex(&actual));
                    self.line.signature(verified, "git", pending.time, seq, Some(seq), &id);
                    return true;
                }
                _ if commit.hash != derived.hash => "bad-hash",
                _ if commit.says != derived.says => "bad-commit",
                _ => "bad-tree",
            },
            Ok(_) => "bad-commit",
            Err(code) => code,
        };
        self.line.find(code, Some(pending.seq), &hex(&actual));
        false
    }
}

fn look_up(upper: &Upper, name: &str) -> Result<Id, TreeFault> {
    match &upper.1 {
        Ok(folders) => folders.get(name.as_bytes()).copied().ok_or(("missing-object", String::new())),
        Err(code) => Err((code, hex(&upper.0))),
    }
}

/// The entries of one event: side files first, then the event.
fn entries_of(leaf: &Result<Vec<Entry>, TreeFault>, seq: u64) -> &[Entry] {
    let entries = leaf.as_deref().unwrap_or_default();
    let from = entries.partition_point(|entry| entry.seq < seq);
    let to = entries.partition_point(|entry| entry.seq <= seq);
    &entries[from..to]
}

fn event_entry(entries: &[Entry]) -> Option<&Entry> {
    entries.last().filter(|entry| entry.number().is_none())
}
