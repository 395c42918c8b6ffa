//! Verifies a gitjournal repository, export or proof. What is checked, in which order, and what is printed is on the page
//! docs/verification.md of the project; "section N" is a section of it, or of docs/format.md where that is said.
//!
//! Read in this order: main, event, json, line, repository, derive, git, pack, sign, files, verdict.

#![forbid(unsafe_code)]

pub mod derive;
pub mod event;
pub mod files;
pub mod git;
pub mod json;
pub mod line;
pub mod pack;
pub mod repository;
pub mod sign;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A code of section 11.
pub type Code = &'static str;
/// A SHA-256.
pub type Hash = [u8; 32];
/// The id of a git object.
pub type Id = [u8; 20];

const USAGE: &str = "usage: verify_chain [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed] \
                     [--expect-seq N --expect-head HASH] PATH [NAME]";

pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        out.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        out.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
    }
    out
}

/// The id in 40 lower-case hex digits.
pub fn from_hex(digits: &[u8]) -> Option<Id> {
    let text = std::str::from_utf8(digits).ok().filter(|text| event::is_hex(text, 40))?;
    let mut id = [0; 20];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(id)
}

/// Why there is no verdict.
enum Stop {
    Usage(String),
    NotThere(String),
}

#[derive(Default)]
struct Options {
    trust: sign::Trust,
    require_signed: bool,
    expected: Option<(u64, String)>,
    path: PathBuf,
    name: Option<String>,
}

fn main() -> ExitCode {
    let outcome = read_options(std::env::args_os().skip(1)).and_then(|options| check(&options));
    let (status, message) = match outcome {
        Ok((text, status)) => {
            // A reader that has gone away is no matter of the verdict; the status says it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::from(status);
        }
        Err(Stop::Usage(message)) => (2, format!("{message}\n{USAGE}")),
        Err(Stop::NotThere(message)) => (4, message),
    };
    let _ = writeln!(std::io::stderr(), "verify_chain: {message}");
    ExitCode::from(status)
}

/// Section 2. Everything that is wrong with the arguments is found before PATH is looked at.
fn read_options(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<Options, Stop> {
    let usage = |message: &str| Stop::Usage(message.to_string());
    let mut options = Options::default();
    let mut places = Vec::new();
    let (mut seq, mut hash) = (None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| usage("an option has no value"));
        match argument.to_str() {
            Some("--allowed-signers") => {
                let text = read_text(Path::new(&value()?))?;
                let signers =
                    sign::read_signers(&text).ok_or_else(|| usage("a line of the allowed signers cannot be read"))?;
                options.trust.signers = Some(signers);
            }
            Some("--revoked-keys") => {
                let text = read_text(Path::new(&value()?))?;
                options.trust.revoked =
                    sign::read_revoked(&text).ok_or_else(|| usage("a line of the revoked keys cannot be read"))?;
            }
            Some("--require-signed") => options.require_signed = true,
            Some("--expect-seq") => seq = Some(value()?),
            Some("--expect-head") => hash = Some(value()?),
            Some(text) if text.starts_with('-') => return Err(usage(&format!("{text} is no option"))),
            _ => places.push(argument),
        }
    }
    if let (Some(seq), Some(hash)) = (&seq, &hash) {
        let is_number =
            |text: &&str| text.len() <= 8 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        let seq = seq.to_str().filter(is_number).and_then(|text| text.parse().ok());
        let hash = hash.to_str().filter(|text| event::is_hex(text, 64)).map(str::to_string);
        options.expected = Some(seq.zip(hash).ok_or_else(|| usage("an expected head is a number and a hash"))?);
    } else if seq.is_some() || hash.is_some() {
        return Err(usage("--expect-seq and --expect-head go together"));
    }
    let mut places = places.into_iter();
    options.path = places.next().map(PathBuf::from).ok_or_else(|| usage("PATH is missing"))?;
    // A name that is no text is the name of no line.
    options.name = places.next().map(|name| name.to_string_lossy().into_owned());
    if places.next().is_some() {
        return Err(usage("too many arguments"));
    }
    Ok(options)
}

fn read_text(path: &Path) -> Result<String, Stop> {
    std::fs::read_to_string(path).map_err(|error| Stop::Usage(format!("{}: {error}", path.display())))
}

/// The verdict and the exit status.
fn check(options: &Options) -> Result<(String, u8), Stop> {
    let Options { path, trust, .. } = options;
    let not_there = |what: &dyn std::fmt::Display| Stop::NotThere(format!("{}: {what}", path.display()));
    let ending = path.extension().and_then(|ending| ending.to_str());
    let expected = options.expected.as_ref().map(|(seq, hash)| (*seq, hash.as_str()));
    let mut foreign = 0;
    let (input, mut lines) = match ending {
        _ if path.is_dir() => {
            if expected.is_some() && options.name.is_none() {
                return Err(Stop::Usage("an expected head needs the name of one line".to_string()));
            }
            let lines;
            (lines, foreign) = check_repository(options).map_err(|error| not_there(&error))?;
            if expected.is_some() && lines.len() > 1 {
                return Err(Stop::Usage("an expected head needs exactly one line".to_string()));
            }
            ("git", lines)
        }
        Some("json" | "jsonl") if path.is_file() && options.name.is_some() => {
            return Err(Stop::Usage("a file has no named lines".to_string()));
        }
        Some("json") if path.is_file() && expected.is_some() => {
            return Err(Stop::Usage("a proof has no expected head".to_string()));
        }
        Some("jsonl") if path.is_file() => {
            ("jsonl", vec![files::check_export(path, trust).map_err(|error| not_there(&error))?])
        }
        Some("json") if path.is_file() => {
            ("proof", vec![files::check_proof(path, trust).map_err(|error| not_there(&error))?])
        }
        _ => return Err(not_there(&"neither a folder, nor a file *.jsonl or *.json")),
    };
    for line in &mut lines {
        // A ref that holds no id has only that finding.
        if input != "git" || line.commit.is_some() {
            line.finish(expected, options.require_signed);
        }
    }
    Ok(verdict::print(input, &lines, foreign, options.expected.is_some(), trust.signers.is_some()))
}

/// The lines of a repository, sorted by name, and the number of foreign refs.
fn check_repository(options: &Options) -> std::io::Result<(Vec<line::Line<'_>>, u64)> {
    let none = |what: &str| std::io::Error::new(std::io::ErrorKind::NotFound, what);
    let repository = git::find_repository(&options.path).ok_or_else(|| none("no repository that can be read"))?;
    let mut refs = git::read_refs(&repository)?;
    if let Some(name) = &options.name {
        let (session, branch) = name.split_once('/').unwrap_or((name, "main"));
        refs.lines.retain(|line, _| line.session == session && line.branch == branch);
    }
    if refs.lines.is_empty() {
        return Err(none("no line, or none of this name"));
    }
    let shallow = git::read_regular(&repository.join("shallow"))?;
    let shallow: HashSet<Id> = shallow.split(|byte| *byte == b'\n').filter_map(from_hex).collect();
    let mut objects = git::Git::open(repository)?;
    let mut lines: Vec<line::Line> = Vec::new();
    for (name, head) in &refs.lines {
        lines.push(match head {
            Some(head) => repository::check(&mut objects, &options.trust, name, *head, &shallow),
            None => {
                let mut line = line::Line::new(&options.trust, Some(name.name.clone()));
                line.find("wrong-ref", None, "");
                line
            }
        });
    }
    // Equivocation. A line whose events are of another session than its ref has `wrong-ref`, and is not compared.
    let sessions: Vec<Option<&str>> = (refs.lines.keys().zip(&lines))
        .map(|(name, line)| line.spelled().is_some_and(|spelled| spelled.0 == name.session).then_some(&*name.session))
        .collect();
    for later in 1..lines.len() {
        let (before, rest) = lines.split_at_mut(later);
        for (other, session) in before.iter().zip(&sessions) {
            if session.is_some() && *session == sessions[later] {
                rest[0].compare(other);
            }
        }
    }
    Ok((lines, refs.foreign))
}
