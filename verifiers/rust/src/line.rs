//! One line of events (section 7) with its seals (section 9), and what is reported of it.

use crate::base::{Code, Hash, Id, base64, from_hex, hex, sha256};
use crate::event::{Event, encode, is_name};
use crate::json::Value;
use crate::sign::{Trust, Verified, verify};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings after which the rest of a line is not checked.
const MAX_FINDINGS: usize = 1000;
/// In the place of a hash: the event is lost. (No event has it.)
const LOST: Hash = [0; 32];

/// Seq and id of a finding.
type Place<'a> = (Option<u64>, &'a str);

/// The state of section 7, and the report.
#[derive(Default)]
pub struct Line {
    trust: Arc<Trust>,
    pub name: Option<String>,
    pub commit: Option<Id>,
    /// `head.seq`.
    pub head: u64,
    pub findings: BTreeSet<(Option<u64>, Code, String)>,
    pub seals: u64,
    pub side_files: u64,
    pub signatures: u64,
    /// By key: how many signatures; place in the file, and principals, of the first of the allowed signers that accepted one.
    pub signers: BTreeMap<String, (u64, Option<(usize, String)>)>,
    pub signed_to: u64,
    pub withheld: Vec<(u64, u64)>,
    /// Signatures of a kind that is not checked here.
    pub not_checked: u64,
    /// A signature was accepted by a line with an end.
    pub clocks: bool,
    /// Commits that a shallow history leaves out.
    pub left_out: u64,
    pub session: Option<String>,
    epoch: i64,
    branch: Option<String>,
    hashes: Vec<Hash>,
    declared: BTreeSet<u64>,
    /// The tree of the first events that are not lost.
    merkle: Merkle,
}

impl Line {
    pub fn new(trust: &Arc<Trust>, name: Option<String>, commit: Option<Id>) -> Self {
        Line { trust: trust.clone(), name, commit, ..Line::default() }
    }

    pub fn find(&mut self, code: Code, seq: Option<u64>, id: &str) {
        if !self.is_full() {
            self.findings.insert((seq, code, id.to_string()));
        }
    }

    pub fn is_full(&self) -> bool {
        self.findings.len() >= MAX_FINDINGS
    }

    pub fn lose(&mut self) {
        self.hashes.push(LOST);
    }

    /// The event at a place of this line, None if it is lost or was not read.
    pub fn hash_at(&self, seq: u64) -> Option<&Hash> {
        self.hashes.get(usize::try_from(seq).ok()?.checked_sub(1)?).filter(|hash| **hash != LOST)
    }

    /// The next event. `id`: of its blob in git, or empty.
    pub fn push(&mut self, event: &Event, id: &str) {
        let seq = self.hashes.len() as u64 + 1;
        let other_session = self.session.as_ref().is_some_and(|session| *session != event.session);
        let rules = [
            ("bad-seq", event.seq == seq),
            ("broken-link", event.prev.as_ref() == self.hashes.last() || self.hashes.last() == Some(&LOST)),
            ("bad-epoch", event.epoch >= self.epoch),
            ("bad-session", !other_session || event.kind == "session.fork"),
            ("bad-fork", !matches!(event.kind, "session.branch" | "session.fork") || self.fork(event, seq)),
        ];
        for (code, _) in rules.into_iter().filter(|rule| !rule.1) {
            self.find(code, Some(seq), id);
        }
        self.hashes.push(event.hash);
        self.session = Some(event.session.to_string());
        self.epoch = self.epoch.max(event.epoch);
        if event.data.is_none() {
            match self.withheld.last_mut() {
                Some(range) if range.1 == seq - 1 => range.1 = seq,
                _ => self.withheld.push((seq, seq)),
            }
        }
        // When an event before is lost, there is no root to compare with.
        let is_whole = self.merkle.size == seq - 1;
        if event.kind == "session.seal" {
            self.seals += 1;
            if is_whole && self.seal(event, seq, id).is_none() {
                self.find("bad-seal", Some(seq), id);
            }
        }
        if is_whole {
            self.merkle.push(&event.hash);
        }
    }

    /// fork(e) of section 7: false if a rule is broken.
    fn fork(&mut self, event: &Event, seq: u64) -> bool {
        let data = |name| event.data.and_then(|data| data.get(name));
        let from = |name| data("from").and_then(|from| from.get(name));
        let Some(from_seq) = from("seq").and_then(Value::integer) else { return false };
        let mut good = true;
        if event.kind == "session.branch" {
            let name = data("branch").and_then(Value::string).filter(|name| is_name(name, 200));
            good &= name.is_some();
            self.branch = name.map(String::from).or(self.branch.take());
        } else {
            let origin = from("session").and_then(Value::string);
            let is_other = |session: &String| event.session != *session && origin.as_deref() == Some(session);
            good &= from_seq == seq as i64 - 1 && self.session.as_ref().is_none_or(is_other);
            self.branch = None;
        }
        // The event itself is not in `hashes` yet, so what is there is before it.
        match usize::try_from(from_seq - 1).ok().and_then(|place| self.hashes.get(place)) {
            None => false,
            Some(&LOST) => good,
            Some(hash) if from("hash").and_then(Value::inner).and_then(from_hex) == Some(*hash) => {
                self.declared.insert(from_seq as u64);
                good
            }
            Some(_) => false,
        }
    }

    /// seal(e) of section 9: None if a rule is broken; its signatures are looked at if none is.
    fn seal(&mut self, event: &Event, seq: u64, id: &str) -> Option<()> {
        let seal = Seal::read(event, seq)?;
        let text = seal.text(&self.spelled()?);
        (self.merkle.root() == Some(seal.root) && seal.checkpoint == text).then_some(())?;
        self.seal_signatures(&seal, event.time, (Some(seq), id));
        Some(())
    }

    pub fn seal_signatures(&mut self, seal: &Seal, time: u64, place: Place) {
        for (key, sshsig) in &seal.signatures {
            let verified = verify(sshsig, "gitjournal", seal.checkpoint.as_bytes(), Some(key));
            self.signature(verified, "gitjournal", time, seal.size, place);
        }
    }

    /// What follows from a signature that covers the line up to `covers`.
    pub fn signature(&mut self, verified: Option<Verified>, space: &str, time: u64, covers: u64, (seq, id): Place) {
        let Some((public_key, fingerprint, is_checked)) = verified else { return self.find("bad-signature", seq, id) };
        if !is_checked {
            return self.not_checked += 1;
        }
        self.signatures += 1;
        let (count, first) = self.signers.entry(fingerprint).or_default();
        *count += 1;
        if self.trust.signers.is_none() {
            return;
        }
        let Some((place, accepting)) = self.trust.accepts(&public_key, space, time) else {
            return self.find("unknown-signer", seq, id);
        };
        if first.as_ref().is_none_or(|first| place < first.0) {
            *first = Some((place, accepting.principals.clone()));
        }
        self.clocks |= accepting.valid_before.is_some();
        self.signed_to = self.signed_to.max(covers);
    }

    /// The session and branch that the events say, as they stand in a ref.
    pub fn spelled(&self) -> Option<String> {
        let branch = self.branch.as_deref().unwrap_or("main");
        self.session.as_ref().map(|session| format!("{}/{}", encode(session), encode(branch)))
    }

    /// What is asked of the whole line: `--expect-seq` and `--expect-head`, `--require-signed`.
    pub fn finish(&mut self, expected: Option<(u64, Hash)>, require_signed: bool) {
        if let Some((seq, hash)) = expected {
            if self.head < seq {
                self.find("truncated", Some(self.head).filter(|head| *head > 0), &hex(&hash));
            } else if self.hash_at(seq) != Some(&hash) {
                self.find("rollback", Some(seq), &hex(&hash));
            }
        }
        if require_signed && self.signed_to == 0 {
            self.find("bad-signature", None, "");
        }
    }

    /// Equivocation: two lines of one session, of which `self` sorts later.
    pub fn compare(&mut self, other: &Line) {
        if self.session.is_none() || self.session != other.session {
            return;
        }
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
        let string = |value: Value, name| value.get(name).and_then(Value::string).map(String::from);
        let signature = |one: Value| {
            let good = one.has_exactly(&["key", "sshsig"]);
            Some((string(one, "key")?, string(one, "sshsig")?)).filter(|_| good)
        };
        let size = data.get("size")?.integer().filter(|size| *size == seq as i64 - 1)? as u64;
        Some(Seal {
            size,
            root: from_hex(data.get("root")?.inner()?)?,
            checkpoint: string(data, "checkpoint")?,
            signatures: data.get("signatures")?.items()?.map(signature).collect::<Option<_>>()?,
        })
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
pub struct Merkle {
    size: u64,
    parts: Vec<Hash>,
}

impl Merkle {
    pub fn push(&mut self, hash: &Hash) {
        let mut part = merkle_leaf(hash);
        // As many parts of equal size are there to be joined as the size ends in ones.
        for left in self.parts.drain(self.parts.len() - self.size.trailing_ones() as usize..).rev() {
            part = merkle_node(&left, &part);
        }
        self.parts.push(part);
        self.size += 1;
    }

    pub fn root(&self) -> Option<Hash> {
        self.parts.iter().rev().copied().reduce(|right, left| merkle_node(&left, &right))
    }
}
