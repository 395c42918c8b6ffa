//! The objects of a repository: from packs, and else with one child `git cat-file` (section 4).

use crate::base::{Code, Id, hex, must, object_hash};
use crate::pack::{Packs, Unpacker};
use ring::rand::{SecureRandom, SystemRandom};
use sha1::Digest;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A kind of object, its largest size, and the code of one that is larger.
pub struct Kind(pub &'static str, u64, Code);

pub const COMMIT: Kind = Kind("commit", 64 << 10, "bad-commit");
pub const TREE: Kind = Kind("tree", 16 << 20, "bad-tree");
pub const EVENT: Kind = Kind("blob", 16 << 20, "bad-member");
pub const SIDE_FILE: Kind = Kind("blob", u64::MAX, "");

const ENVIRONMENT: &str = "GIT_NO_REPLACE_OBJECTS=1 GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 \
                           GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_OPTIONAL_LOCKS=0 \
                           GIT_TERMINAL_PROMPT=0 GIT_ALLOC_LIMIT=256m";
const ARGUMENTS: &str = "--no-replace-objects -c core.bigFileThreshold=32m -c core.multiPackIndex=false \
                         cat-file --batch-command --buffer";

/// Gives a sink all that comes, piece by piece.
pub fn pour(input: &mut impl BufRead, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    loop {
        let piece = input.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        sink(piece);
        let length = piece.len();
        input.consume(length);
    }
}

/// The good objects of a repository.
pub struct Objects<'p> {
    path: PathBuf,
    unpacker: Unpacker<'p>,
    running: Option<Running>,
    /// An id that no repository can contain, as nobody could know it. It ends each request to git.
    end: String,
}

/// What git prints. It is at its end when the last thing that came is the end of a request: git then waits for another, and
/// an answer that is shorter than it says would be waited for for ever.
struct Output {
    pipe: ChildStdout,
    tail: Vec<u8>,
    end: Vec<u8>,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tail == self.end {
            return Ok(0);
        }
        let length = self.pipe.read(buffer)?;
        self.tail.extend(&buffer[length.saturating_sub(self.end.len())..length]);
        self.tail.drain(..self.tail.len().saturating_sub(self.end.len()));
        Ok(length)
    }
}

impl<'p> Objects<'p> {
    pub fn open(path: &Path, packs: &'p Packs) -> io::Result<Self> {
        let mut id: Id = [0; 20];
        SystemRandom::new().fill(&mut id).map_err(|_| io::ErrorKind::Other)?;
        let end = hex(&id);
        let running = Some(Running::start(path, &end)?);
        Ok(Objects { path: path.to_path_buf(), unpacker: Unpacker::new(packs), running, end })
    }

    pub fn read(&mut self, id: &Id, kind: &Kind) -> Result<Vec<u8>, Code> {
        let mut bytes = Vec::new();
        self.stream(id, kind, &mut |piece| bytes.extend_from_slice(piece)).map(|()| bytes)
    }

    /// In pieces; whether it is good is known at the end.
    pub fn stream(&mut self, id: &Id, kind: &Kind, sink: &mut dyn FnMut(&[u8])) -> Result<(), Code> {
        let Some(bytes) = self.unpacker.good(id, kind.0) else { return self.ask_git(id, kind, sink) };
        sink(&bytes);
        Ok(())
    }

    /// After any answer that is neither good nor `missing` another git is started, so that nothing that an object made git
    /// print is taken for the answer of another.
    pub fn ask_git(&mut self, id: &Id, kind: &Kind, sink: &mut dyn FnMut(&[u8])) -> Result<(), Code> {
        let start = || Running::start(&self.path, &self.end).ok();
        let mut running = self.running.take().or_else(start).ok_or("bad-object")?;
        // If git has ended, the missing answer shows it.
        let _ = running.input.write_all(format!("contents {}\ncontents {}\nflush\n", hex(id), self.end).as_bytes());
        running.output.get_mut().tail.clear();
        let answer = running.answer(id, kind, sink);
        let is_known = matches!(answer, Ok(()) | Err("missing-object"));
        let is_whole = is_known && running.line().is_ok_and(|line| line.as_bytes() == running.output.get_ref().end);
        if is_whole {
            self.running = Some(running);
        }
        answer.and(must(is_whole, "bad-object"))
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

impl Running {
    fn start(path: &Path, end: &str) -> io::Result<Running> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
            command.env_remove(name);
        }
        let mut git_dir = std::ffi::OsString::from("--git-dir=");
        git_dir.push(path);
        command.envs(ENVIRONMENT.split(' ').filter_map(|one| one.split_once('=')));
        command.arg(git_dir).args(ARGUMENTS.split(' '));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (input, pipe) = child.stdin.take().zip(child.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let output = Output { pipe, tail: Vec::new(), end: format!("{end} missing\n").into_bytes() };
        Ok(Running { child, input, output: BufReader::with_capacity(1 << 16, output) })
    }

    /// A line with its newline; one that is too long is cut.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.by_ref().take(200).read_line(&mut line)?;
        Ok(line)
    }

    fn answer(
        &mut self,
        id: &Id,
        Kind(kind, limit, too_large): &Kind,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Code> {
        let header = self.line().map_err(|_| "bad-object")?;
        let words: Vec<&str> = header.strip_suffix('\n').unwrap_or_default().split(' ').collect();
        let size: u64 = match words[..] {
            [name, "missing"] if name == hex(id) => return Err("missing-object"),
            [name, found, size] if name == hex(id) && found == *kind => size.parse().map_err(|_| "bad-object")?,
            _ => return Err("bad-object"),
        };
        must(size <= *limit, too_large)?;
        let mut hash = object_hash(kind, size);
        let mut body = self.output.by_ref().take(size);
        let poured = pour(&mut body, &mut |piece| {
            hash.update(piece);
            sink(piece);
        });
        let is_whole = poured.is_ok() && body.limit() == 0;
        let mut newline = [0];
        must(is_whole && self.output.read_exact(&mut newline).is_ok() && newline == *b"\n", "bad-object")?;
        must(hash.finalize()[..] == *id, "bad-object")
    }
}
