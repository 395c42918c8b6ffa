//! Verifies a gitjournal repository, export or proof. What is checked, in which order, and what is printed is on the page
//! docs/verification.md of the project; "section N" is a section of it, or of docs/format.md where that is said.
//!
//! To be read in this order. These decide: main (what is asked), base, json, event (one event alone), line (events after
//! each other, seals, what is found), sign (signatures, and whose they are), derive (trees and commits that follow from
//! events), refs (which lines there are), repository (a line in git), files (exports, proofs), verdict (what is printed).
//!
//! These only fetch bytes: git (through `git cat-file`) and pack (without it). Nothing of them is used but objects whose
//! SHA-1 is the id that was asked for, or whose bytes are those of which the id was computed: see the ends of
//! `Running::answer`, `Unpacker::good` and `Unpacker::has`. So whatever else is wrong there can make a verdict fail, but
//! never pass.

#![forbid(unsafe_code)]

pub mod base;
pub mod derive;
pub mod event;
pub mod files;
pub mod git;
pub mod json;
pub mod line;
pub mod pack;
pub mod refs;
pub mod repository;
pub mod sign;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "usage: verify_chain [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed] \
                     [--expect-seq N --expect-head HASH] PATH [NAME]";

/// Why there is no verdict: exit status, and what is wrong.
type Stop = (u8, String);

fn usage(message: &str) -> Stop {
    (2, format!("{message}\n{USAGE}"))
}

struct Options {
    trust: Arc<sign::Trust>,
    require_signed: bool,
    expected: Option<(u64, base::Hash)>,
    path: PathBuf,
    name: Option<String>,
}

fn main() -> ExitCode {
    let outcome = read_options(std::env::args_os().skip(1)).and_then(|options| check(&options));
    // A reader that has gone away is no matter of the verdict; the status says it.
    let (status, _) = match outcome {
        Ok((text, status)) => (status, std::io::stdout().write_all(text.as_bytes())),
        Err((status, message)) => (status, writeln!(std::io::stderr(), "verify_chain: {message}")),
    };
    ExitCode::from(status)
}

/// Section 2. Everything that is wrong with the arguments is found before PATH is looked at.
fn read_options(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, Stop> {
    let mut trust = sign::Trust::default();
    let (mut require_signed, mut seq, mut hash, mut places) = (false, None, None, Vec::new());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| usage("an option has no value"));
        match argument.to_str() {
            Some("--allowed-signers") => trust.signers = Some(read_keys(&value()?, sign::read_signer)?),
            Some("--revoked-keys") => trust.revoked = read_keys(&value()?, sign::read_key)?,
            Some("--require-signed") => require_signed = true,
            Some("--expect-seq") => seq = Some(value()?),
            Some("--expect-head") => hash = Some(value()?),
            Some(text) if text.starts_with('-') => return Err(usage(&format!("{text} is no option"))),
            _ => places.push(argument),
        }
    }
    let is_expected = seq.is_some() || hash.is_some();
    let expected = seq.zip(hash).and_then(|(seq, hash)| read_head(seq.to_str()?, hash.to_str()?));
    if is_expected && expected.is_none() {
        return Err(usage("an expected head is a number and a hash"));
    }
    // A name that is no text is the name of no line.
    let (path, name) = match &places[..] {
        [path] => (path.into(), None),
        [path, name] => (path.into(), Some(name.to_string_lossy().into_owned())),
        _ => return Err(usage("one PATH is needed, and at most one NAME")),
    };
    Ok(Options { trust: Arc::new(trust), require_signed, expected, path, name })
}

/// The lines of a file of keys.
fn read_keys<T>(path: &OsStr, read: fn(&str) -> Option<T>) -> Result<Vec<T>, Stop> {
    let wrong = |what: &dyn Display| usage(&format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    sign::read_lines(&text, read).ok_or_else(|| wrong(&"a line cannot be read"))
}

/// A number of 1 to 8 digits that does not begin with 0, and a hash.
fn read_head(seq: &str, hash: &str) -> Option<(u64, base::Hash)> {
    let seq = Some(seq).filter(|seq| seq.len() <= 8 && !seq.starts_with(['0', '+']))?;
    Some((seq.parse().ok()?, base::from_hex(hash)?))
}

/// The verdict and the exit status.
fn check(options: &Options) -> Result<(String, u8), Stop> {
    let Options { path, name, trust, expected, .. } = options;
    let not_there = |what: &dyn Display| (4, format!("{}: {what}", path.display()));
    let ends = |with: &[u8]| path.as_os_str().as_encoded_bytes().ends_with(with);
    let input = match () {
        () if path.is_dir() => "git",
        () if path.is_file() && ends(b".jsonl") => "jsonl",
        () if path.is_file() && ends(b".json") => "proof",
        () => return Err(not_there(&"neither a folder, nor a file *.jsonl or *.json")),
    };
    match input {
        "git" if expected.is_some() && name.is_none() => {
            return Err(usage("an expected head needs the name of a line"));
        }
        "jsonl" | "proof" if name.is_some() => return Err(usage("a file has no named lines")),
        "proof" if expected.is_some() => return Err(usage("a proof has no expected head")),
        _ => {}
    }
    let checked = match input {
        "git" => check_repository(options),
        "jsonl" => files::check_export(path, trust).map(|line| (vec![line], 0)),
        _ => files::check_proof(path, trust).map(|line| (vec![line], 0)),
    };
    let (mut lines, foreign) = checked.map_err(|error| not_there(&error))?;
    if expected.is_some() && lines.len() > 1 {
        return Err(usage("an expected head needs exactly one line"));
    }
    // A ref that holds no id has only that finding.
    for line in lines.iter_mut().filter(|line| input != "git" || line.commit.is_some()) {
        line.finish(*expected, options.require_signed);
    }
    Ok(verdict::print(input, &lines, foreign, expected.is_some(), trust.signers.is_some()))
}

/// The lines of a repository, sorted by name, and the number of foreign refs.
fn check_repository(options: &Options) -> std::io::Result<(Vec<line::Line>, u64)> {
    let none = |what: &str| std::io::Error::new(std::io::ErrorKind::NotFound, what);
    let path = refs::find_repository(&options.path).ok_or_else(|| none("no repository that can be read"))?;
    let (mut refs, foreign) = refs::read_refs(&path)?;
    if let Some(name) = &options.name {
        let wanted = if name.contains('/') { format!("/{name}") } else { format!("/{name}/main") };
        refs.retain(|line, _| wanted.matches('/').count() == 2 && line.ends_with(&wanted));
    }
    if refs.is_empty() {
        return Err(none("no line, or none of this name"));
    }
    let packs = pack::open_packs(&path).unwrap_or_default();
    let mut repository = repository::Repository::open(&path, &packs)?;
    let check = |(name, head): (&String, &Option<base::Id>)| repository.check(&options.trust, name, *head);
    let mut lines: Vec<line::Line> = refs.iter().map(check).collect();
    for later in 1..lines.len() {
        let (before, rest) = lines.split_at_mut(later);
        before.iter().for_each(|other| rest[0].compare(other));
    }
    Ok((lines, foreign))
}
