//! Objects, read from packs and loose files: faster than git does it. It need not find all, as those that are not found
//! here, or are not good, are read with git (section 4). So whatever is odd here is no fault, but "not found".

use crate::git::read_regular;
use crate::{Id, hex};
use flate2::{Decompress, FlushDecompress, Status};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of an object, so that few bytes on the disk stand for no more than this.
const MAX_UNPACKED: usize = 64 << 10;
/// Bytes of all indexes: they are kept in memory.
const MAX_INDEXES: u64 = 512 << 20;
/// All are held open, and each is compared with all others.
const MAX_PACKS: usize = 128;
/// Deltas upon each other.
const MAX_DEPTH: usize = 64;
/// A pack is read in blocks, each with the beginning of the next one.
const BLOCK: usize = 16 << 10;
const OVERLAP: usize = 4 << 10;

struct Pack {
    file: File,
    size: u64,
    /// How many ids begin with a lower byte.
    fanout: Vec<usize>,
    ids: Vec<Id>,
    offsets: Vec<u32>,
}

impl Pack {
    /// None for what git would not take for a pack and its index (version 2).
    fn open(path: &Path, index: &[u8]) -> Option<Pack> {
        let (tables, sums) = index.strip_prefix(b"\xfftOc\0\0\0\x02")?.split_last_chunk::<40>()?;
        let (fanout, tables) = tables.split_at_checked(1024)?;
        let number = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
        let fanout: Vec<usize> =
            [0].into_iter().chain(fanout.as_chunks().0.iter().map(|n| number(n) as usize)).collect();
        let count = fanout[256];
        let (ids, tables) = tables.split_at_checked(20 * count)?;
        let (offsets, large) = tables.split_at_checked(8 * count)?;
        let file = File::open(path).ok()?;
        // Git begins to read nothing in the sum at the end.
        let size =
            file.metadata().ok().filter(fs::Metadata::is_file)?.len().checked_sub(20).filter(|size| *size >= 12)?;
        let (mut header, mut sum) = ([0; 12], [0; 20]);
        file.read_exact_at(&mut header, 0).ok()?;
        file.read_exact_at(&mut sum, size).ok()?;
        let ids = ids.as_chunks().0.to_vec();
        let good = fanout.is_sorted()
            && ids.is_sorted_by(|one: &Id, next| one < next)
            && large.len().is_multiple_of(8)
            && large.len() <= 8 * count.saturating_sub(1)
            && header[..8] == *b"PACK\0\0\0\x02"
            && header[8..] == (count as u32).to_be_bytes()
            && sum == sums[..20];
        let offsets = offsets[4 * count..].as_chunks().0.iter().map(number).collect();
        good.then(|| Pack { file, size, fanout, ids, offsets })
    }

    /// Takes from two packs what both have, as git decides which of them it reads.
    fn strike_out(&mut self, other: &mut Pack) {
        let (mut i, mut j) = (0, 0);
        while i < self.ids.len() && j < other.ids.len() {
            let order = self.ids[i].cmp(&other.ids[j]);
            if order.is_eq() {
                (self.offsets[i], other.offsets[j]) = (u32::MAX, u32::MAX);
            }
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
        }
    }

    /// The offset of an object; None if it is not there. One that nothing has if only git can tell where it is: beyond
    /// 2 GiB, or in two packs.
    fn find(&self, id: &Id) -> Option<u64> {
        let first = self.fanout[usize::from(id[0])];
        let ids = &self.ids[first..self.fanout[usize::from(id[0]) + 1]];
        // Eight bytes are compared at once; they are enough nearly always.
        let begin = |id: &Id| id.first_chunk().map(|begin| u64::from_be_bytes(*begin));
        let place = ids.binary_search_by(|other| begin(other).cmp(&begin(id)).then_with(|| other.cmp(id))).ok()?;
        let offset = self.offsets[first + place];
        Some(if offset < 1 << 31 { offset.into() } else { u64::MAX })
    }
}

/// The packs of a folder of objects and its alternates; None if there is anything of which git may know more.
fn open_packs(objects: &Path) -> Option<Vec<Pack>> {
    let mut left = MAX_INDEXES;
    let mut packs: Vec<Pack> = Vec::new();
    let mut folders = vec![objects.to_path_buf()];
    let path = objects.join("info/alternates");
    let alternates =
        read_regular(&path).ok().filter(|_| fs::symlink_metadata(&path).map_or(true, |found| found.is_file()))?;
    for line in alternates.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        // What is an absolute path stands for itself.
        let folder = objects.join(OsStr::from_bytes(line));
        let nested = fs::symlink_metadata(folder.join("info/alternates")).is_ok();
        // What a NUL or ".." stands for is not the same for the system, for git, and for all versions of it.
        let is_odd =
            matches!(line, [] | [b'#' | b'"', ..]) || line.contains(&0) || line.windows(2).any(|two| two == b"..");
        if is_odd || nested || folders.len() > 8 {
            return None;
        }
        folders.push(folder);
    }
    for entry in folders.into_iter().flat_map(|folder| fs::read_dir(folder.join("pack"))).flatten().flatten() {
        let index = entry.path();
        let Some(stem) = index.as_os_str().as_bytes().strip_suffix(b".idx") else { continue };
        let pack = PathBuf::from(OsStr::from_bytes(&[stem, b".pack"].concat()));
        if !pack.is_file() {
            continue;
        }
        let size = fs::metadata(&index).ok().filter(fs::Metadata::is_file)?.len();
        if size == 0 || size > left || packs.len() == MAX_PACKS {
            return None;
        }
        left -= size;
        let mut pack = Pack::open(&pack, &read_size(&index, size)?)?;
        packs.iter_mut().for_each(|other| pack.strike_out(other));
        packs.push(pack);
    }
    Some(packs)
}

/// So many bytes of a file and no more, as there are files whose size is 0 and that never end.
fn read_size(path: &Path, size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(size).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Where something stands: number of the pack, and offset.
type Place = (usize, u64);

const NOWHERE: Place = (usize::MAX, 0);

/// The bytes of packs, through blocks that were read, each in the slot that its place gives it.
struct Blocks {
    packs: Arc<Vec<Pack>>,
    blocks: Vec<(Place, Vec<u8>)>,
    /// What is longer than a block has for certain.
    long: Vec<u8>,
}

impl Blocks {
    /// So many bytes, fewer at the end of the pack.
    fn bytes(&mut self, (pack, offset): Place, length: usize) -> Option<&[u8]> {
        let Pack { file, size, .. } = &self.packs[pack];
        let left = usize::try_from(size.checked_sub(offset)?).ok()?;
        let length = length.min(left);
        if length > OVERLAP {
            self.long.resize(length, 0);
            file.read_exact_at(&mut self.long, offset).ok()?;
            return Some(&self.long);
        }
        let (number, from) = (offset as usize / BLOCK, offset as usize % BLOCK);
        let slot = number % self.blocks.len();
        let (place, block) = &mut self.blocks[slot];
        let begin = (pack, offset - from as u64);
        if *place != begin {
            *place = NOWHERE;
            block.resize((left + from).min(BLOCK + OVERLAP), 0);
            file.read_exact_at(block, begin.1).ok()?;
            *place = begin;
        }
        block.get(from..from + length)
    }
}

/// Reads objects; each thread needs its own.
pub struct Unpacker {
    objects: PathBuf,
    blocks: Blocks,
    /// The pack in which the last object was.
    newest: usize,
    inflate: Decompress,
    /// Objects that were the base of others, with their kind, each in the slot that its offset gives it.
    bases: Vec<(Place, &'static str, Vec<u8>)>,
}

impl Unpacker {
    pub fn open(repository: &Path) -> Unpacker {
        let objects = repository.join("objects");
        // With a commondir they are elsewhere.
        match open_packs(&objects).filter(|_| !repository.join("commondir").exists()) {
            Some(packs) => Unpacker::new(objects, packs.into()),
            None => Unpacker::new(PathBuf::from("/dev/null"), Arc::new(Vec::new())),
        }
    }

    /// For another thread.
    pub fn another(&self) -> Unpacker {
        Unpacker::new(self.objects.clone(), self.blocks.packs.clone())
    }

    fn new(objects: PathBuf, packs: Arc<Vec<Pack>>) -> Unpacker {
        let blocks = Blocks { packs, blocks: vec![(NOWHERE, Vec::new()); 64], long: Vec::new() };
        let bases = vec![(NOWHERE, "", Vec::new()); 512];
        Unpacker { objects, blocks, newest: 0, inflate: Decompress::new(true), bases }
    }

    /// Appends the bytes of an object, which may be wrong, and gives its kind.
    pub fn read(&mut self, id: &Id, out: &mut Vec<u8>) -> Option<&'static str> {
        let count = self.blocks.packs.len();
        for pack in (self.newest..count).chain(0..self.newest) {
            if let Some(offset) = self.blocks.packs[pack].find(id) {
                self.newest = pack;
                return self.at((pack, offset), out, MAX_DEPTH);
            }
        }
        self.loose(id, out)
    }

    /// What stands at a place of a pack.
    fn at(&mut self, (pack, offset): Place, out: &mut Vec<u8>, depth: usize) -> Option<&'static str> {
        let mut head = [0; 64]; // behind the end of the pack zeros, which end each number
        let bytes = self.blocks.bytes((pack, offset), head.len())?;
        head[..bytes.len()].copy_from_slice(bytes);
        let (mut used, mut size) = (1, usize::from(head[0] & 0x0F));
        while head[used - 1] >= 0x80 {
            size |= usize::from(head[used] & 0x7F) << (7 * used - 3);
            used += 1;
            (used < 6).then_some(())?;
        }
        let form = head[0] >> 4 & 7;
        let base = match form {
            1..=3 => {
                self.unzip((pack, offset + used as u64), size, out)?;
                return Some(["commit", "tree", "blob"][usize::from(form) - 1]);
            }
            6 => {
                let mut back = u64::from(head[used] & 0x7F);
                while head[used] >= 0x80 {
                    (back < offset).then_some(())?; // so it cannot overflow
                    used += 1;
                    back = (back + 1) << 7 | u64::from(head[used] & 0x7F);
                }
                used += 1;
                offset.checked_sub(back)?
            }
            7 => {
                used += 20;
                self.blocks.packs[pack].find(head[used - 20..].first_chunk()?)?
            }
            _ => return None,
        };
        (depth > 0).then_some(())?;
        let mut delta = Vec::new();
        self.unzip((pack, offset + used as u64), size, &mut delta)?;
        let slot = base as usize % self.bases.len();
        if self.bases[slot].0 != (pack, base) {
            let mut data = Vec::new();
            let kind = self.at((pack, base), &mut data, depth - 1)?;
            self.bases[slot] = ((pack, base), kind, data);
        }
        let (_, kind, data) = &self.bases[slot];
        apply(data, &delta, out).map(|()| *kind)
    }

    /// Appends what is deflated at a place: `size` bytes.
    fn unzip(&mut self, place: Place, size: usize, out: &mut Vec<u8>) -> Option<()> {
        if size > MAX_UNPACKED {
            return None;
        }
        // Those who write packs need no more room than this for what cannot be made smaller.
        let bytes = self.blocks.bytes(place, size + size / 1000 + 32)?;
        let length = inflate(&mut self.inflate, bytes, size, out)?.1;
        (length == size).then_some(())
    }

    /// A loose object.
    fn loose(&mut self, id: &Id, out: &mut Vec<u8>) -> Option<&'static str> {
        let name = hex(id);
        let path = self.objects.join(&name[..2]).join(&name[2..]);
        let found = fs::metadata(&path)
            .ok()
            .filter(|found| found.is_file() && (1..=MAX_UNPACKED as u64).contains(&found.len()))?;
        let bytes = read_size(&path, found.len())?;
        let begin = out.len();
        let (used, _) = inflate(&mut self.inflate, &bytes, MAX_UNPACKED, out)?;
        let zero = out[begin..].iter().position(|byte| *byte == 0)?;
        let size = out.len() - begin - zero - 1;
        let header = &out[begin..begin + zero];
        let kind = ["commit", "tree", "blob"].into_iter().find(|kind| header == format!("{kind} {size}").as_bytes())?;
        out.drain(begin..=begin + zero);
        (used == bytes.len()).then_some(kind)
    }
}

/// Appends what is deflated in `bytes`, `most` bytes at most; how many were read, and how many it is.
fn inflate(state: &mut Decompress, bytes: &[u8], most: usize, out: &mut Vec<u8>) -> Option<(usize, usize)> {
    let begin = out.len();
    out.resize(begin + most + 1, 0);
    state.reset(true);
    let status = state.decompress(bytes, &mut out[begin..], FlushDecompress::Finish).ok()?;
    let length = state.total_out() as usize;
    out.truncate(begin + length);
    (status == Status::StreamEnd && length <= most).then_some((state.total_in() as usize, length))
}

/// Appends what a delta makes of its base.
fn apply(base: &[u8], mut delta: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut next = |count: usize| {
        let (taken, rest) = delta.split_at_checked(count)?;
        delta = rest;
        Some(taken)
    };
    let mut number = || {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = usize::from(next(1)?[0]);
            number |= (byte & 0x7F) << shift;
            shift += 7;
            match byte {
                0..0x80 => return Some(number),
                _ => (shift < 35).then_some(())?,
            }
        }
    };
    let (from, size) = (number()?, number()?);
    if from != base.len() || size == 0 || size > MAX_UNPACKED {
        return None;
    }
    let end = out.len() + size;
    while let Some(op) = next(1) {
        let op = op[0];
        let part = if op < 0x80 {
            next(usize::from(op))? // bytes of the delta
        } else {
            // A part of the base: four bytes of the place and three of the length, zeros left out.
            let mut number = [0; 7];
            for bit in (0..7).filter(|bit| op >> bit & 1 == 1) {
                number[bit] = usize::from(next(1)?[0]);
            }
            let [a, b, c, d, length @ ..] = number;
            let at = a | b << 8 | c << 16 | d << 24;
            let length = length[0] | length[1] << 8 | length[2] << 16;
            base.get(at..at + if length == 0 { 1 << 16 } else { length })?
        };
        if part.is_empty() || out.len() + part.len() > end {
            return None;
        }
        out.extend_from_slice(part);
    }
    (out.len() == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_hex;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn git(folder: &Path, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(folder).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// All objects are found without git: loose, whole in a pack, and as deltas of both kinds.
    #[test]
    fn packs_and_loose_objects() {
        let folder = std::env::temp_dir().join(format!("verify-chain-packs-{}", std::process::id()));
        git(&folder, &["init", "--quiet", "--bare"], "");
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let text: Vec<u8> = (0..60_000).map(|_| random()).collect();
        let contents: Vec<&[u8]> = (0..60).flat_map(|n| [&text[..n * 1000], &text[n..n + n * n * 16]]).collect();
        let mut paths = String::new();
        for (n, content) in contents.iter().enumerate() {
            let path = folder.join(format!("file-{n}"));
            fs::write(&path, content).unwrap();
            paths += &format!("{}\n", path.display());
        }
        let ids = git(&folder, &["hash-object", "-w", "--stdin-paths"], &paths);
        let pack = folder.join("objects/pack/pack").display().to_string();
        for option in ["", "--window=0", "--delta-base-offset", "--no-reuse-delta"] {
            if !option.is_empty() {
                git(&folder, &["pack-objects", "-q", "--depth=5", option, &pack], &ids);
            }
            let mut unpacker = Unpacker::open(&folder);
            assert_eq!(unpacker.blocks.packs.len(), usize::from(!option.is_empty()));
            for (id, content) in ids.lines().zip(&contents) {
                let mut out = b"x".to_vec();
                let kind = unpacker.read(&from_hex(id.as_bytes()).unwrap(), &mut out);
                assert!(kind == Some("blob") && out[0] == b'x' && out[1..] == **content, "{option} {id}");
            }
            let bases = unpacker.bases.iter().filter(|base| base.0 != NOWHERE).count();
            assert_eq!(bases > 0, option.contains("delta"), "{option}");
            for entry in fs::read_dir(folder.join("objects/pack")).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
