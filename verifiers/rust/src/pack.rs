//! Objects, read from packs: faster than git does it. It need not find all, as what is not found here, or
//! is not good, is read with git (section 4). So whatever is odd here is no fault, but "not found".

use crate::base::{Id, object_id};
use flate2::{Decompress, FlushDecompress, Status};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Of an object, so that few bytes on the disk stand for no more than this.
const MAX_UNPACKED: usize = 64 << 10;
/// Bytes of all indexes: they are kept in memory.
const MAX_INDEXES: u64 = 512 << 20;
/// All are held open, and each is asked for each object.
const MAX_PACKS: usize = 128;
/// Deltas upon each other.
const MAX_DEPTH: usize = 64;
/// A pack is read in blocks, each with the beginning of the next one.
const BLOCK: u64 = 16 << 10;
const OVERLAP: u64 = 4 << 10;
/// Room behind what is inflated: without it the last 260 bytes take the slow way of zlib.
const SPARE: usize = 512;

const KINDS: [&str; 3] = ["commit", "tree", "blob"];

/// Kind and bytes.
type Object = (&'static str, Vec<u8>);

/// The packs of a repository, and one index of them all.
#[derive(Default)]
pub struct Packs {
    files: Vec<Pack>,
    /// Sorted: id, number of the pack, and offset; a wrong one if it is above 2 GiB, where an index has a place in another
    /// table.
    entries: Vec<(Id, u32, u32)>,
    /// Where ids begin in `entries` by the upper bits of their first four bytes.
    starts: Vec<u32>,
    shift: u32,
}

struct Pack {
    file: File,
    size: u64,
}

fn bucket(id: &Id, shift: u32) -> usize {
    (u32::from_be_bytes([id[0], id[1], id[2], id[3]]) >> shift) as usize
}

impl Pack {
    /// Adds its index to `entries`. None for what git would not take for a pack and its index (version 2).
    fn open(path: &Path, index: &[u8], pack: usize, entries: &mut Vec<(Id, u32, u32)>) -> Option<Pack> {
        let (tables, sums) = index.strip_prefix(b"\xfftOc\0\0\0\x02")?.split_last_chunk::<40>()?;
        let number = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
        let (fanout, tables) = tables.split_at_checked(1024)?;
        let count = number(fanout.last_chunk()?) as usize;
        let (ids, tables) = tables.split_at_checked(20 * count)?;
        let (offsets, large) = tables.split_at_checked(8 * count)?;
        let ids: &[Id] = ids.as_chunks().0;
        let file = File::open(path).ok()?;
        // Git begins to read nothing in the sum at the end.
        let size = file.metadata().ok().filter(fs::Metadata::is_file)?.len().checked_sub(20)?;
        let (mut header, mut sum) = ([0; 12], [0; 20]);
        file.read_exact_at(&mut header, 0).ok()?;
        file.read_exact_at(&mut sum, size).ok()?;
        let ends = (0..=255).map(|byte| ids.partition_point(|id| id[0] <= byte) as u32);
        let good = ids.is_sorted_by(|one, next| one < next)
            && fanout.as_chunks().0.iter().map(number).eq(ends)
            && large.len().is_multiple_of(8)
            && large.len() <= 8 * count.saturating_sub(1)
            && size >= 12
            && header[..8] == *b"PACK\0\0\0\x02"
            && header[8..] == (count as u32).to_be_bytes()
            && sum == sums[..20];
        let offsets = offsets[4 * count..].as_chunks().0.iter().map(number);
        entries.extend(ids.iter().zip(offsets).map(|(id, offset)| (*id, pack as u32, offset)));
        good.then_some(Pack { file, size })
    }
}

impl Packs {
    fn new(files: Vec<Pack>, mut entries: Vec<(Id, u32, u32)>) -> Packs {
        entries.sort_unstable();
        // About as many places as ids, so that few ids share one.
        let shift = 32 - entries.len().max(256).ilog2();
        let mut starts = vec![0; (1 << (32 - shift)) + 1];
        entries.iter().for_each(|entry| starts[bucket(&entry.0, shift) + 1] += 1);
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        Packs { files, entries, starts, shift }
    }

    /// Where an object stands. One that is in two packs is not found: git decides which of them it reads.
    fn find(&self, id: &Id) -> Option<Place> {
        let bucket = bucket(id, self.shift);
        let (first, last) = (self.starts.get(bucket)?, self.starts.get(bucket + 1)?);
        let entries = &self.entries[*first as usize..*last as usize];
        let place = entries.partition_point(|entry| entry.0 < *id);
        let mut same = entries[place..].iter().take_while(|entry| entry.0 == *id);
        let (_, pack, offset) = *same.next().filter(|_| same.next().is_none())?;
        Some((pack as usize, offset.into()))
    }
}

/// The packs of a repository; none of one of which git may know more, as it has objects elsewhere as well, or odd packs.
pub fn open_packs(repository: &Path) -> Option<Packs> {
    let is_there = |name| fs::symlink_metadata(repository.join(name)).is_ok();
    (!is_there("commondir") && !is_there("objects/info/alternates")).then_some(())?;
    let (mut left, mut packs, mut entries) = (MAX_INDEXES, Vec::new(), Vec::new());
    for entry in fs::read_dir(repository.join("objects/pack")).ok()?.flatten() {
        let index = entry.path();
        let stem = index.as_os_str().as_bytes().strip_suffix(b".idx");
        let pack = stem.map(|stem| PathBuf::from(OsStr::from_bytes(&[stem, b".pack"].concat())));
        let Some(pack) = pack.filter(|pack| pack.is_file()) else { continue };
        // Of this size and no more: there are files whose size is 0 and that never end.
        let size = fs::metadata(&index).ok().filter(fs::Metadata::is_file)?.len();
        left = left.checked_sub(size)?;
        (size > 0 && packs.len() < MAX_PACKS).then_some(())?;
        let mut bytes = Vec::new();
        File::open(&index).ok()?.take(size).read_to_end(&mut bytes).ok()?;
        packs.push(Pack::open(&pack, &bytes, packs.len(), &mut entries)?);
    }
    Some(Packs::new(packs, entries))
}

/// Where something stands: number of the pack, and offset.
type Place = (usize, u64);

pub const NOWHERE: Place = (usize::MAX, 0);

/// The bytes of packs, through blocks that were read, each in the slot that its place gives it.
struct Blocks<'p> {
    packs: &'p Packs,
    slots: Vec<(Place, Vec<u8>)>,
}

impl Blocks<'_> {
    /// So many bytes, fewer at the end of the pack.
    fn bytes(&mut self, (pack, offset): Place, length: u64) -> Option<&[u8]> {
        let Pack { file, size } = &self.packs.files[pack];
        let begin = offset - offset % BLOCK;
        let end = offset.checked_add(length)?.min(*size);
        let slot = (offset / BLOCK) as usize % self.slots.len();
        let (place, block) = &mut self.slots[slot];
        if *place != (pack, begin) || begin + (block.len() as u64) < end {
            *place = NOWHERE;
            block.resize(end.max(begin + BLOCK + OVERLAP).min(*size).checked_sub(begin)? as usize, 0);
            file.read_exact_at(block, begin).ok()?;
            *place = (pack, begin);
        }
        block.get((offset - begin) as usize..(end - begin) as usize)
    }
}

/// Reads objects; each thread needs its own.
pub struct Unpacker<'p> {
    blocks: Blocks<'p>,
    inflate: Decompress,
    room: Vec<u8>,
    /// Objects that were the base of others, each in the slot that its offset gives it.
    pub bases: Vec<(Place, Object)>,
}

impl<'p> Unpacker<'p> {
    pub fn new(packs: &'p Packs) -> Self {
        let blocks = Blocks { packs, slots: vec![(NOWHERE, Vec::new()); 64] };
        let (inflate, room) = (Decompress::new(true), vec![0; MAX_UNPACKED + SPARE]);
        Unpacker { blocks, inflate, room, bases: vec![(NOWHERE, ("", Vec::new())); 512] }
    }

    /// The bytes of a good object.
    pub fn good(&mut self, id: &Id, kind: &str) -> Option<Vec<u8>> {
        self.read(id).filter(|found| found.0 == kind && object_id(kind, &[&found.1]) == *id).map(|found| found.1)
    }

    /// Whether an object is there that has these bytes. Its id is known to be that of them, so that it is good.
    pub fn has(&mut self, id: &Id, kind: &str, parts: &[&[u8]]) -> bool {
        let Some((found, bytes)) = self.read(id) else { return false };
        let mut rest = &bytes[..];
        let is_same = parts.iter().all(|part| rest.strip_prefix(*part).map(|after| rest = after).is_some());
        is_same && rest.is_empty() && found == kind
    }

    /// An object, which may be wrong.
    fn read(&mut self, id: &Id) -> Option<Object> {
        self.at(self.blocks.packs.find(id)?, MAX_DEPTH)
    }

    /// What stands at a place of a pack.
    fn at(&mut self, (pack, offset): Place, depth: usize) -> Option<Object> {
        let bytes = self.blocks.bytes((pack, offset), 64)?;
        let mut rest = bytes;
        let first = *rest.split_off_first()?;
        let more = if first < 0x80 { 0 } else { low_number(&mut rest)? };
        let size = usize::from(first & 0x0F) | more << 4;
        let form = usize::from(first >> 4 & 7);
        let base = match form {
            1..=3 => None,
            6 => Some(offset.checked_sub(distance(&mut rest, offset)?)?),
            // The base by its id: in packs that travel. Git writes none of these to the disk.
            _ => return None,
        };
        let data = (pack, offset + (bytes.len() - rest.len()) as u64);
        let data = self.unzip(data, size)?;
        let Some(base) = base else { return Some((KINDS[form - 1], data)) };
        (depth > 0).then_some(())?;
        let slot = base as usize % self.bases.len();
        if self.bases[slot].0 != (pack, base) {
            self.bases[slot] = ((pack, base), self.at((pack, base), depth - 1)?);
        }
        let (kind, base) = &self.bases[slot].1;
        Some((kind, apply(base, &data)?))
    }

    /// What is deflated at a place: `size` bytes.
    fn unzip(&mut self, place: Place, size: usize) -> Option<Vec<u8>> {
        (size <= MAX_UNPACKED).then_some(())?;
        // Those who write packs need no more room than this for what cannot be made smaller.
        let bytes = self.blocks.bytes(place, (size + size / 1000 + 32) as u64)?;
        // Most deltas are one stored block.
        if let Some(data) = stored(bytes, size) {
            return Some(data.to_vec());
        }
        self.inflate.reset(true);
        let room = &mut self.room[..size + SPARE];
        let status = self.inflate.decompress(bytes, room, FlushDecompress::Finish).ok()?;
        (status == Status::StreamEnd && self.inflate.total_out() == size as u64).then(|| room[..size].to_vec())
    }
}

/// What a zlib stream holds that is one stored block: two bytes of zlib, one of deflate, the length, and it inverted.
/// Behind the data is a sum of them (Adler-32).
pub fn stored(stream: &[u8], size: usize) -> Option<&[u8]> {
    let length = u16::try_from(size).ok()?;
    let rest = stream.strip_prefix(b"\x78\x01\x01")?.strip_prefix(&length.to_le_bytes())?;
    let (data, end) = rest.strip_prefix(&(!length).to_le_bytes())?.split_at_checked(size)?;
    let add = |(low, high): (u64, u64), byte: &u8| (low + u64::from(*byte), high + low + u64::from(*byte));
    let (low, high) = data.iter().fold((1, 0), add); // of 65,535 bytes: below 2^40
    let sum = ((high % 65_521) << 16 | low % 65_521) as u32;
    (end.first_chunk() == Some(&sum.to_be_bytes())).then_some(data)
}

/// A number of 7 bits a byte, the lowest first; the last byte is below 0x80.
fn low_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// How far before `offset` the base of a delta begins: 7 bits a byte, the highest first, and no number in two spellings.
fn distance(bytes: &mut &[u8], offset: u64) -> Option<u64> {
    let mut number = 0;
    loop {
        let byte = *bytes.split_off_first()?;
        number = number << 7 | u64::from(byte & 0x7F);
        if byte < 0x80 {
            return Some(number);
        }
        number += 1;
        (number < offset).then_some(())?; // so it cannot overflow
    }
}

/// What a delta makes of its base.
fn apply(base: &[u8], mut delta: &[u8]) -> Option<Vec<u8>> {
    let (from, size) = (low_number(&mut delta)?, low_number(&mut delta)?);
    (from == base.len() && (1..=MAX_UNPACKED).contains(&size)).then_some(())?;
    let mut out = Vec::with_capacity(size);
    while let Some(op) = delta.split_off_first() {
        let part = if *op < 0x80 {
            delta.split_off(..usize::from(*op))? // bytes of the delta
        } else {
            // A part of the base: four bytes of the place and three of the length, zeros left out.
            let mut numbers = [0; 8];
            for bit in (0..7).filter(|bit| op >> bit & 1 == 1) {
                numbers[bit] = *delta.split_off_first()?;
            }
            let numbers = u64::from_le_bytes(numbers);
            let (at, length) = (numbers as u32 as usize, (numbers >> 32) as usize);
            base.get(at..at + if length == 0 { 1 << 16 } else { length })?
        };
        (!part.is_empty() && out.len() + part.len() <= size).then_some(())?;
        out.extend_from_slice(part);
    }
    (out.len() == size).then_some(out)
}
