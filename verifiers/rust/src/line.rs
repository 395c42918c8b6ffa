//! One line of events (section 7) with its seals (section 9), and what is reported of it.

use crate::event::{Event, encode, is_hex, is_name};
use crate::json::Value;
use crate::sign::{Trust, Verified, base64, sha256, verify};
use crate::{Code, Hash, Id, hex};
use std::collections::{BTreeMap, BTreeSet};

/// Findings after which the rest of a line is not checked.
const MAX_FINDINGS: usize = 1000;
/// In the place of a hash: the event is lost. (No event has it.)
pub const LOST: Hash = [0; 32];

/// A key that made right signatures.
#[derive(Default)]
pub struct Signer {
    /// Place in the file, and principals, of the first line of the allowed signers that accepted one.
    pub accepted: Option<(usize, String)>,
    pub signatures: u64,
}

/// The state of section 7, and the report.
pub struct Line<'t> {
    trust: &'t Trust,
    pub name: Option<String>,
    pub commit: Option<Id>,
    /// `head.seq`.
    pub head: u64,
    pub findings: BTreeSet<(Option<u64>, Code, String)>,
    pub seals: u64,
    pub side_files: u64,
    pub signatures: u64,
    pub signers: BTreeMap<String, Signer>,
    pub signed_to: u64,
    pub withheld: Vec<(u64, u64)>,
    /// Signatures of a kind that is not checked here.
    pub not_checked: u64,
    /// A signature was accepted by a line with an end.
    pub clocks: bool,
    /// Commits that a shallow history leaves out.
    pub left_out: u64,
    /// `prev` as the next event must have it; None: unknown.
    prev: Option<String>,
    pub session: Option<String>,
    epoch: u64,
    branch: String,
    pub hashes: Vec<Hash>,
    declared: BTreeSet<u64>,
    /// How many of the first events are not lost, and their Merkle tree.
    whole: u64,
    merkle: Merkle,
}

impl<'t> Line<'t> {
    pub fn new(trust: &'t Trust, name: Option<String>) -> Self {
        Line {
            trust,
            name,
            commit: None,
            head: 0,
            findings: BTreeSet::new(),
            seals: 0,
            side_files: 0,
            signatures: 0,
            signers: BTreeMap::new(),
            signed_to: 0,
            withheld: Vec::new(),
            not_checked: 0,
            clocks: false,
            left_out: 0,
            prev: Some("null".to_string()),
            session: None,
            epoch: 1,
            branch: "main".to_string(),
            hashes: Vec::new(),
            declared: BTreeSet::new(),
            whole: 0,
            merkle: Merkle::default(),
        }
    }

    pub fn find(&mut self, code: Code, seq: Option<u64>, id: &str) {
        if !self.is_full() {
            self.findings.insert((seq, code, id.to_string()));
        }
    }

    pub fn is_full(&self) -> bool {
        self.findings.len() >= MAX_FINDINGS
    }

    /// The place of the next event.
    fn next(&self) -> u64 {
        self.hashes.len() as u64 + 1
    }

    pub fn lose(&mut self) {
        self.hashes.push(LOST);
        self.prev = None;
    }

    /// The event at a place of this line, None if it is lost or was not read.
    pub fn hash_at(&self, seq: u64) -> Option<&Hash> {
        self.hashes.get(usize::try_from(seq).ok()?.checked_sub(1)?).filter(|hash| **hash != LOST)
    }

    /// The next event. `id`: of its blob in git.
    pub fn push(&mut self, event: &Event, id: Option<Id>) {
        let seq = self.next();
        let find = |line: &mut Self, code: Code| line.find(code, Some(seq), &id.map(|id| hex(&id)).unwrap_or_default());
        if event.seq != seq {
            find(self, "bad-seq");
        }
        if self.prev.as_ref().is_some_and(|prev| prev != event.prev) {
            find(self, "broken-link");
        }
        if event.epoch < self.epoch {
            find(self, "bad-epoch");
        }
        let session_changes = self.session.as_ref().is_some_and(|session| *session != event.session);
        if session_changes && event.kind != "session.fork" {
            find(self, "bad-session");
        }
        if matches!(event.kind, "session.branch" | "session.fork") && !self.fork(event, seq) {
            find(self, "bad-fork");
        }
        self.hashes.push(event.hash);
        self.prev = Some(format!("\"{}\"", hex(&event.hash)));
        if self.session.is_none() || session_changes {
            self.session = Some(event.session.to_string());
        }
        self.epoch = self.epoch.max(event.epoch);
        if event.data.is_none() {
            match self.withheld.last_mut() {
                Some(range) if range.1 == seq - 1 => range.1 = seq,
                _ => self.withheld.push((seq, seq)),
            }
        }
        if event.kind == "session.seal" {
            self.seals += 1;
            // When an event before is lost, there is no root to compare with.
            if self.whole == seq - 1 && !self.seal(event, seq, id) {
                find(self, "bad-seal");
            }
        }
        if self.whole == seq - 1 {
            self.whole = seq;
            self.merkle.push(&event.hash);
        }
    }

    /// fork(e) of section 7: false if a rule is broken.
    fn fork(&mut self, event: &Event, seq: u64) -> bool {
        let data = |name| event.data.and_then(|data| data.get(name));
        let from = |name| data("from").filter(|from| from.is_object()).and_then(|from| from.get(name));
        let Some(from_seq) = from("seq").and_then(Value::integer) else { return false };
        let mut good = true;
        if event.kind == "session.branch" {
            match data("branch").and_then(Value::string).filter(|name| is_name(name, 200)) {
                Some(name) => self.branch = name.into_owned(),
                None => good = false,
            }
        } else {
            if let Some(session) = &self.session {
                good &= event.session != *session;
                good &= from("session").and_then(Value::string).is_some_and(|from| from == *session);
            }
            good &= from_seq == seq as i64 - 1;
            self.branch = "main".to_string();
        }
        // The event itself is not in `hashes` yet, so what is there is before it.
        let Some(hash) = usize::try_from(from_seq - 1).ok().and_then(|place| self.hashes.get(place)) else {
            return false;
        };
        if *hash != LOST {
            let same = from("hash").and_then(Value::inner).is_some_and(|from| from == hex(hash));
            good &= same;
            if same {
                self.declared.insert(from_seq as u64);
            }
        }
        good
    }

    /// seal(e) of section 9: false if a rule is broken; its signatures are looked at if none is.
    fn seal(&mut self, event: &Event, seq: u64, id: Option<Id>) -> bool {
        let Some(seal) = Seal::read(event, seq) else { return false };
        let origin = format!("{}/{}", encode(&event.session), encode(&self.branch));
        if self.merkle.root() != Some(seal.root) || seal.checkpoint != seal.text(&origin) {
            return false;
        }
        self.seal_signatures(&seal, event.time, Some(seq), &id.map(|id| hex(&id)).unwrap_or_default());
        true
    }

    pub fn seal_signatures(&mut self, seal: &Seal, time: u64, seq: Option<u64>, id: &str) {
        for (key, sshsig) in &seal.signatures {
            let verified = verify(sshsig, "gitjournal", seal.checkpoint.as_bytes(), Some(key));
            self.signature(verified, "gitjournal", time, seal.size, seq, id);
        }
    }

    /// What follows from a signature that covers the line up to `covers`.
    pub fn signature(
        &mut self,
        verified: Option<Verified>,
        namespace: &str,
        time: u64,
        covers: u64,
        seq: Option<u64>,
        id: &str,
    ) {
        let (public_key, fingerprint) = match verified {
            None => return self.find("bad-signature", seq, id),
            Some(Verified::NotChecked) => return self.not_checked += 1,
            Some(Verified::Right { public_key, fingerprint }) => (public_key, fingerprint),
        };
        self.signatures += 1;
        let signer = self.signers.entry(fingerprint).or_default();
        signer.signatures += 1;
        if self.trust.signers.is_none() {
            return;
        }
        let Some((place, accepting)) = self.trust.accepts(&public_key, namespace, time) else {
            return self.find("unknown-signer", seq, id);
        };
        if signer.accepted.as_ref().is_none_or(|first| place < first.0) {
            signer.accepted = Some((place, accepting.principals.clone()));
        }
        self.clocks |= accepting.valid_before.is_some();
        self.signed_to = self.signed_to.max(covers);
    }

    /// The session and branch that the events say, as parts of a ref.
    pub fn spelled(&self) -> Option<(String, String)> {
        self.session.as_ref().map(|session| (encode(session), encode(&self.branch)))
    }

    /// What is asked of the whole line: `--expect-seq` and `--expect-head`, `--require-signed`.
    pub fn finish(&mut self, expected: Option<(u64, &str)>, require_signed: bool) {
        if let Some((seq, hash)) = expected {
            if self.head < seq {
                self.find("truncated", Some(self.head).filter(|head| *head > 0), hash);
            } else if self.hash_at(seq).is_none_or(|found| hex(found) != hash) {
                self.find("rollback", Some(seq), hash);
            }
        }
        if require_signed && self.signed_to == 0 {
            self.find("bad-signature", None, "");
        }
    }

    /// Equivocation: `self` sorts later than `other`.
    pub fn compare(&mut self, other: &Line) {
        let both = || self.hashes.iter().zip(&other.hashes);
        let known = both().take_while(|(one, other)| **one != LOST && **other != LOST).count();
        let equal = both().take(known).take_while(|(one, other)| one == other).count();
        let is_declared = |line: &Line| line.declared.contains(&(equal as u64));
        if equal < known && !is_declared(self) && !is_declared(other) {
            self.find("equivocation", Some(equal as u64 + 1), &hex(&self.hashes[equal]));
        }
    }
}

/// What a seal says.
pub struct Seal {
    pub size: u64,
    pub root: Hash,
    pub checkpoint: String,
    /// Key and sshsig.
    signatures: Vec<(String, String)>,
}

impl Seal {
    /// Rules 1 and 4 of section 9, and that the root is one.
    pub fn read(event: &Event, seq: u64) -> Option<Seal> {
        let data = event.data.filter(|data| data.has_exactly(&["checkpoint", "root", "signatures", "size"]))?;
        let size = seq - 1;
        let root = data.get("root")?.inner().filter(|root| is_hex(root, 64))?;
        let mut seal = Seal {
            size,
            root: std::array::from_fn(|at| u8::from_str_radix(&root[2 * at..2 * at + 2], 16).unwrap_or(0)),
            checkpoint: data.get("checkpoint")?.string()?.into_owned(),
            signatures: Vec::new(),
        };
        for signature in data.get("signatures")?.items()? {
            let member = |name| signature.get(name).and_then(Value::string).map(String::from);
            signature.has_exactly(&["key", "sshsig"]).then_some(())?;
            seal.signatures.push((member("key")?, member("sshsig")?));
        }
        (data.get("size")?.integer() == Some(size as i64)).then_some(seal)
    }

    /// The checkpoint that it must have; `origin` is `session/branch`.
    pub fn text(&self, origin: &str) -> String {
        format!("gitjournal/{origin}\n{}\n{}\n", self.size, base64(&self.root))
    }
}

pub fn merkle_leaf(hash: &Hash) -> Hash {
    sha256(&[&[0], hash])
}

pub fn merkle_node(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
}

/// The tree of RFC 9162 section 2.1.1 over the leaves so far: the roots of its full parts, the biggest first.
#[derive(Default)]
struct Merkle {
    size: u64,
    parts: Vec<Hash>,
}

impl Merkle {
    fn push(&mut self, hash: &Hash) {
        let mut part = merkle_leaf(hash);
        // As many parts of equal size are there to be joined as the size ends in ones.
        for _ in 0..self.size.trailing_ones() {
            let left = self.parts.pop().unwrap_or(LOST);
            part = merkle_node(&left, &part);
        }
        self.parts.push(part);
        self.size += 1;
    }

    fn root(&self) -> Option<Hash> {
        let (last, rest) = self.parts.split_last()?;
        Some(rest.iter().rev().fold(*last, |right, left| merkle_node(left, &right)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merkle_roots() {
        fn root(leaves: &[Hash]) -> Hash {
            if let [leaf] = leaves {
                return merkle_leaf(leaf);
            }
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            merkle_node(&root(left), &root(right))
        }
        let leaves: Vec<Hash> = (1..=70).map(|byte| [byte; 32]).collect();
        let mut tree = Merkle::default();
        assert_eq!(tree.root(), None);
        for size in 1..=leaves.len() {
            tree.push(&leaves[size - 1]);
            assert_eq!(tree.root(), Some(root(&leaves[..size])));
        }
    }
}
