//! A git repository: its objects, read with one `git cat-file` (section 4), and its refs, read from the files (section 5).

use crate::event::decode;
use crate::pack::Unpacker;
use crate::sign::{object_hash, object_id};
use crate::{Code, Id, from_hex, hex};
use ring::rand::{SecureRandom, SystemRandom};
use sha1::Digest;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::take;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

/// A kind of object, and the code of one that is larger than its limit.
pub struct Kind {
    pub name: &'static str,
    limit: u64,
    too_large: Code,
}

pub const COMMIT: Kind = Kind { name: "commit", limit: 64 << 10, too_large: "bad-commit" };
pub const TREE: Kind = Kind { name: "tree", limit: 16 << 20, too_large: "bad-tree" };
pub const EVENT: Kind = Kind { name: "blob", limit: 16 << 20, too_large: "bad-member" };
pub const SIDE_FILE: Kind = Kind { name: "blob", limit: u64::MAX, too_large: "" };

const NO_FAULT: Code = "";

/// The largest packed-refs and shallow (section 5).
const MAX_GIT_FILE: u64 = 256 << 20;

/// Objects that are looked for together.
const CHUNK: usize = 32;
/// Chunks that wait to be looked at, at most.
const AHEAD: usize = 64;

/// The objects of a repository. What is asked for is answered in order, after `flush`. Other threads look for it in packs
/// and loose files, chunk by chunk in turn; what they do not find, or is not good, is then read with git.
pub struct Git {
    path: PathBuf,
    running: Option<Running>,
    unpacker: Unpacker,
    waiting: VecDeque<Id>,
    requests: Vec<Id>,
    threads: Vec<(Sender<Vec<Id>>, Receiver<Chunk>)>,
    /// How many chunks were sent, and received.
    sent: usize,
    received: usize,
    chunk: Chunk,
    /// How many of `chunk` have been looked at.
    used: usize,
    /// An id that no repository can contain, as nobody could know it; and git's answer. It ends each request.
    end: String,
    end_answer: Vec<u8>,
}

/// What was found, in order: kind and place in `bytes`.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    found: Vec<Option<(&'static str, Range<usize>)>>,
}

/// A thread that looks for chunks. It ends when nobody is interested any more.
fn start_thread(mut unpacker: Unpacker, ahead: usize) -> (Sender<Vec<Id>>, Receiver<Chunk>) {
    let (ask, asked) = channel::<Vec<Id>>();
    let (done, chunks) = sync_channel(ahead);
    thread::spawn(move || asked.iter().try_for_each(|ids| done.send(Chunk::read(&mut unpacker, &ids))));
    (ask, chunks)
}

impl Chunk {
    fn read(unpacker: &mut Unpacker, ids: &[Id]) -> Chunk {
        let mut chunk = Chunk::default();
        for id in ids {
            let begin = chunk.bytes.len();
            let kind = unpacker.read(id, &mut chunk.bytes);
            chunk.found.push(kind.map(|kind| (kind, begin..chunk.bytes.len())));
        }
        chunk
    }
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<Output>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What git prints. It is at its end when the last thing that came is the end of a request: git then waits for another, and
/// an answer that is shorter than it says would be waited for for ever.
struct Output {
    pipe: ChildStdout,
    tail: Vec<u8>,
    end_answer: Vec<u8>,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tail == self.end_answer {
            return Ok(0);
        }
        let length = self.pipe.read(buffer)?;
        self.tail.extend(&buffer[length.saturating_sub(self.end_answer.len())..length]);
        self.tail.drain(..self.tail.len().saturating_sub(self.end_answer.len()));
        Ok(length)
    }
}

impl Git {
    pub fn open(path: PathBuf) -> io::Result<Git> {
        let mut id: Id = [0; 20];
        SystemRandom::new().fill(&mut id).map_err(|_| io::ErrorKind::Other)?;
        let end = hex(&id);
        let end_answer = format!("{end} missing\n").into_bytes();
        let running = Some(start(&path, &end_answer)?);
        let unpacker = Unpacker::open(&path);
        let count = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let threads = (0..count).map(|_| start_thread(unpacker.another(), AHEAD / count)).collect();
        let (waiting, requests, chunk) = (VecDeque::new(), Vec::new(), Chunk::default());
        Ok(Git {
            path,
            running,
            unpacker,
            waiting,
            requests,
            threads,
            sent: 0,
            received: 0,
            chunk,
            used: 0,
            end,
            end_answer,
        })
    }

    pub fn ask(&mut self, id: &Id) {
        self.requests.push(*id);
    }

    /// Sends what was asked for.
    pub fn flush(&mut self) {
        self.waiting.extend(&self.requests);
        for chunk in take(&mut self.requests).chunks(CHUNK) {
            // If nobody is there, nothing is found.
            let _ = self.threads[self.sent % self.threads.len()].0.send(chunk.to_vec());
            self.sent += 1;
        }
    }

    /// One object, whatever is waiting.
    pub fn object(&mut self, id: &Id, kind: &Kind, bytes: &mut Vec<u8>) -> Result<(), Code> {
        bytes.clear();
        if self.unpacker.read(id, bytes) == Some(kind.name) && object_id(kind.name, bytes) == *id {
            return Ok(());
        }
        bytes.clear();
        self.read(id, kind, &mut |piece| bytes.extend_from_slice(piece))
    }

    /// The bytes of the object that was asked for first, if it is good.
    pub fn answer(&mut self, kind: &Kind, bytes: &mut Vec<u8>) -> Result<(), Code> {
        bytes.clear();
        self.stream(kind, |piece| bytes.extend_from_slice(piece))
    }

    /// The same, in pieces; whether it is good is known at the end.
    pub fn stream(&mut self, kind: &Kind, mut sink: impl FnMut(&[u8])) -> Result<(), Code> {
        let id = self.waiting.pop_front().ok_or("bad-object")?;
        match self.found(kind).filter(|bytes| object_id(kind.name, bytes) == id) {
            Some(bytes) => sink(bytes),
            None => self.read(&id, kind, &mut sink)?,
        }
        Ok(())
    }

    /// Whether the next answer has these bytes. Its id has been computed from them, so it need not be hashed again.
    pub fn answer_is(&mut self, kind: &Kind, expected: &[&[u8]]) -> Result<(), Code> {
        let id = self.waiting.pop_front().ok_or("bad-object")?;
        let found = self.found(kind);
        let rest = found.and_then(|found| expected.iter().try_fold(found, |rest, part| rest.strip_prefix(*part)));
        if rest.is_some_and(<[u8]>::is_empty) { Ok(()) } else { self.read(&id, kind, &mut |_| ()) }
    }

    /// What the other thread found for the next request.
    fn found(&mut self, kind: &Kind) -> Option<&[u8]> {
        if self.used == self.chunk.found.len() {
            self.chunk = self.threads[self.received % self.threads.len()].1.recv().ok()?;
            self.received += 1;
            self.used = 0;
        }
        self.used += 1;
        let (name, place) = self.chunk.found[self.used - 1].clone()?;
        (name == kind.name).then(|| &self.chunk.bytes[place])
    }

    /// Reads an object with git. After any answer that is neither good nor `missing` another git is started, so that nothing
    /// that an object made git print is taken for the answer of another.
    pub fn read(&mut self, id: &Id, kind: &Kind, sink: &mut dyn FnMut(&[u8])) -> Result<(), Code> {
        if self.running.is_none() {
            self.running = start(&self.path, &self.end_answer).ok();
        }
        let Some(running) = &mut self.running else { return Err("bad-object") };
        running.output.get_mut().tail.clear();
        // If git has ended, the missing answer shows it.
        let _ = running.input.write_all(format!("contents {}\ncontents {}\nflush\n", hex(id), self.end).as_bytes());
        let mut code = "bad-object";
        let answer = read_answer(&mut running.output, id, kind, &mut code, sink);
        let ended = answer.is_ok() && read_line(&mut running.output).is_ok_and(|line| line == self.end_answer);
        if !ended {
            self.running = None;
        }
        match code {
            NO_FAULT if ended => Ok(()),
            NO_FAULT => Err("bad-object"),
            code => Err(code),
        }
    }

    /// Answers that are still to come are of no interest any more.
    pub fn forget(&mut self) {
        for _ in take(&mut self.waiting) {
            self.found(&COMMIT);
        }
    }
}

fn start(path: &Path, end_answer: &[u8]) -> io::Result<Running> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    let mut git_dir = std::ffi::OsString::from("--git-dir=");
    git_dir.push(path);
    let mut child = command
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOC_LIMIT", "256m")
        .arg(git_dir)
        .args(["--no-replace-objects", "-c", "core.bigFileThreshold=32m", "-c", "core.multiPackIndex=false"])
        .args(["cat-file", "--batch-command", "--buffer"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, pipe) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    let output = Output { pipe, tail: Vec::new(), end_answer: end_answer.to_vec() };
    Ok(Running { child, input, output: BufReader::with_capacity(1 << 16, output) })
}

fn strange() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// A line with its newline; one that is too long is cut.
fn read_line(output: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    output.take(200).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// One answer. `code` is what is wrong with the object, as far as is known then. An error: it is not good, and what comes
/// after it cannot be used.
fn read_answer(
    output: &mut impl BufRead,
    id: &Id,
    kind: &Kind,
    code: &mut Code,
    sink: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let header = read_line(output)?;
    let header = std::str::from_utf8(&header).ok().and_then(|line| line.strip_suffix('\n')).ok_or_else(strange)?;
    let rest = header.strip_prefix(&hex(id)).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(strange)?;
    if rest == "missing" {
        *code = "missing-object";
        return Ok(());
    }
    let (name, size) = rest.split_once(' ').ok_or_else(strange)?;
    let size: u64 = size.parse().map_err(|_| strange())?;
    if name != kind.name {
        return Err(strange());
    }
    if size > kind.limit {
        *code = kind.too_large;
        return Err(strange());
    }
    let mut hash = object_hash(kind.name, size);
    let mut left = size;
    while left > 0 {
        let piece = output.fill_buf()?;
        let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hash.update(piece);
        sink(piece);
        let length = piece.len();
        output.consume(length);
        left -= length as u64;
    }
    if read_line(&mut output.take(1))? != b"\n" || hash.finalize()[..] != *id {
        return Err(strange());
    }
    *code = NO_FAULT;
    Ok(())
}

/// A ref that names a line.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    pub name: String,
    /// The two last parts as they are spelled.
    pub session: String,
    pub branch: String,
}

pub struct Refs {
    /// Sorted by name; None: holds no id.
    pub lines: BTreeMap<Ref, Option<Id>>,
    pub foreign: u64,
}

/// The folder of the repository that PATH is.
pub fn find_repository(path: &Path) -> Option<PathBuf> {
    let candidates = [path.to_path_buf(), path.join(".git")];
    let found = candidates.into_iter().find(|path| path.join("HEAD").is_file() && path.join("objects").is_dir())?;
    (!found.join("reftable").is_dir()).then_some(found)
}

pub fn read_refs(repository: &Path) -> io::Result<Refs> {
    let mut all = BTreeMap::new();
    for line in read_regular(&repository.join("packed-refs"))?.split(|byte| *byte == b'\n') {
        if line.len() > 41
            && line[40] == b' '
            && let Some(id) = from_hex(&line[..40])
            && (line[41..].starts_with(b"refs/heads/") || line[41..].starts_with(b"refs/remotes/"))
        {
            all.insert(line[41..].to_vec(), Some(id));
        }
    }
    let mut folders = Vec::new();
    for name in ["refs/heads", "refs/remotes"] {
        let is_folder = |path: &str| fs::symlink_metadata(repository.join(path)).is_ok_and(|found| found.is_dir());
        if is_folder("refs") && is_folder(name) {
            folders.push((repository.join(name), name.as_bytes().to_vec()));
        }
    }
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = [&prefix[..], b"/", &entry.file_name().into_vec()].concat();
            // The type of the entry itself: links are not followed.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push((entry.path(), name));
            } else if !name.ends_with(b".lock") {
                let id = if kind.is_file() { read_ref(&entry.path())? } else { None };
                all.insert(name, id);
            }
        }
    }
    let mut refs = Refs { lines: BTreeMap::new(), foreign: 0 };
    for (name, id) in all {
        let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
        if matches!(parts[..], [_, b"remotes", _, b"HEAD"]) {
            continue;
        }
        match line_name(&name) {
            Some(line) => {
                refs.lines.insert(line, id);
            }
            None => refs.foreign += 1,
        }
    }
    Ok(refs)
}

fn line_name(name: &[u8]) -> Option<Ref> {
    let name = std::str::from_utf8(name).ok()?;
    let parts: Vec<&str> = name.split('/').collect();
    let (session, branch) = match parts[..] {
        ["refs", "heads", session, branch] | ["refs", "remotes", _, session, branch] => (session, branch),
        _ => return None,
    };
    decode(session).and(decode(branch))?;
    Some(Ref { name: name.to_string(), session: session.to_string(), branch: branch.to_string() })
}

/// The id in the file of a ref: exactly 40 digits and a newline.
fn read_ref(path: &Path) -> io::Result<Option<Id>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(42).read_to_end(&mut bytes)?;
    Ok(bytes.strip_suffix(b"\n").and_then(from_hex))
}

/// The bytes of a regular file; nothing for anything else, such as a pipe that would never end.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() > MAX_GIT_FILE => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(found) if found.is_file() => fs::read(path),
        _ => Ok(Vec::new()),
    }
}
