package main

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// What follows finds objects faster than git does. It need not find all: those that it does not find, and those that are
// not good, are looked for with git (section 4). So whatever is odd here is no fault, but "not found".

const notFound = "not found"

const (
	maxUnpacked = 64 << 10  // of an object, so that few bytes on the disk stand for no more than this
	maxIndexes  = 512 << 20 // bytes of all indexes
	maxPacks    = 128       // all are held open
	maxDepth    = 64        // deltas upon each other
)

// store is a folder of objects.
type store struct {
	folder string // empty: all is for git
	packs  []*pack
}

// pack is a pack, without the sum at its end, and its index, which is kept in memory.
type pack struct {
	*io.SectionReader
	fanout       [1<<16 + 1]int32 // how many ids begin with lower two bytes
	ids, offsets []byte
}

// spot is the number of a pack and an offset in it.
type spot struct{ pack, offset int }

// openStore opens the packs of a repository. All is for git if there is anything of which it may know more.
func openStore(dir string) *store {
	s := &store{folder: filepath.Join(dir, "objects")}
	packs := filepath.Join(s.folder, "pack")
	entries, _ := os.ReadDir(packs)
	odd := attempt(func() {
		for _, name := range []string{filepath.Join(dir, "commondir"), filepath.Join(s.folder, "info", "alternates")} {
			_, err := os.Lstat(name)
			must(err != nil, notFound)
		}
		left := int64(maxIndexes)
		for _, entry := range entries {
			stem, isIndex := strings.CutSuffix(filepath.Join(packs, entry.Name()), ".idx")
			packed, err := os.Stat(stem + ".pack")
			if isIndex && err == nil && packed.Mode().IsRegular() {
				index := readFile(stem+".idx", left)
				left -= int64(len(index))
				s.openPack(stem+".pack", packed.Size(), index)
			}
		}
	})
	if odd != "" {
		return &store{}
	}
	return s
}

// openPack refuses what git would not take for a pack and its index (version 2).
func (s *store) openPack(path string, size int64, index []byte) {
	must(size >= 32 && len(index) >= 1072 && string(index[:8]) == "\xfftOc\x00\x00\x00\x02", notFound)
	fanout, tables, sums := index[8:1032], index[1032:len(index)-40], index[len(index)-40:]
	n := int(binary.BigEndian.Uint32(fanout[1020:])) // all ids; before, those that begin with a byte up to so much
	large := len(tables) - 28*n
	must(large >= 0 && large <= 8*max(0, n-1) && large%8 == 0 && len(s.packs) < maxPacks, notFound)
	file, err := os.Open(path)
	must(err == nil, notFound)
	var header [12]byte
	var sum [20]byte
	file.ReadAt(header[:], 0)
	file.ReadAt(sum[:], size-20) // in which git begins to read nothing
	must(string(header[:8]) == "PACK\x00\x00\x00\x02" && bytes.Equal(header[8:], fanout[1020:]), notFound)
	must(bytes.Equal(sum[:], sums[:20]), notFound)
	p := &pack{SectionReader: io.NewSectionReader(file, 0, size-20), ids: tables[:20*n], offsets: tables[24*n : 28*n]}
	for i := range n {
		must(i == 0 || bytes.Compare(p.id(i-1), p.id(i)) < 0, notFound)
		p.fanout[int(binary.BigEndian.Uint16(p.id(i)))+1] = int32(i + 1)
		for _, other := range s.packs {
			if j, found := other.index(p.id(i)); found { // git decides which of them it reads
				p.offsets[4*i], other.offsets[4*j] = 0xFF, 0xFF
			}
		}
	}
	for i := range 1 << 16 {
		p.fanout[i+1] = max(p.fanout[i], p.fanout[i+1])
		must(i%256 < 255 || binary.BigEndian.Uint32(fanout[i/256*4:]) == uint32(p.fanout[i+1]), notFound)
	}
	s.packs = append(s.packs, p)
}

func (p *pack) id(i int) []byte { return p.ids[20*i : 20*i+20] }

// index gives the number of an id.
func (p *pack) index(id []byte) (i int, found bool) {
	begin := binary.BigEndian.Uint16(id)
	low, high := int(p.fanout[begin]), int(p.fanout[int(begin)+1])
	i, found = sort.Find(high-low, func(i int) int { return bytes.Compare(id, p.id(low+i)) })
	return low + i, found
}

// unpacker reads objects. Each goroutine needs its own.
type unpacker struct {
	*store
	newest      int // where the last object was
	in          bytes.Reader
	zlib        io.ReadCloser
	room, built []byte // for what was unzipped, and built from a delta
	blocks      [8]part
	bases       [512]part // read as the base of others
}

// part is what was read at a spot, and is kept in a place that its offset gives it.
type part struct {
	spot
	kind string
	data []byte
}

func newUnpacker(s *store) *unpacker {
	empty, _ := zlib.NewReader(strings.NewReader("\x78\x9c"))
	return &unpacker{store: s, zlib: empty, room: make([]byte, maxUnpacked+1)}
}

// read gives the bytes of an object, which live until the next call; nil if it is not found.
func (u *unpacker) read(kind string, id oid) (data []byte) {
	odd := attempt(func() {
		must(u.folder != "", notFound)
		if at, packed := u.find(id[:]); packed {
			found := ""
			found, data = u.at(at, maxDepth)
			must(found == kind, notFound)
		} else {
			data = u.loose(kind, id.String())
		}
	})
	if odd != "" {
		return nil
	}
	return data
}

func (u *unpacker) find(id []byte) (at spot, packed bool) {
	for i := range u.packs {
		number := (u.newest + i) % len(u.packs)
		if n, found := u.packs[number].index(id); found {
			u.newest = number
			return spot{number, int(binary.BigEndian.Uint32(u.packs[number].offsets[4*n:]))}, true
		}
	}
	return spot{}, false
}

const blockSize = 256 << 10

// bytes gives what stands at a spot, from a block that is kept: all of any object that is read here.
func (u *unpacker) bytes(at spot) []byte {
	begin := spot{at.pack, at.offset / blockSize * blockSize}
	b := &u.blocks[at.offset/blockSize%len(u.blocks)]
	if b.data == nil || b.spot != begin {
		b.data = slices.Grow(b.data[:0], blockSize+maxUnpacked+1024)[:blockSize+maxUnpacked+1024]
		n, _ := u.packs[at.pack].ReadAt(b.data, int64(begin.offset))
		b.spot, b.data = begin, b.data[:n]
	}
	return b.data[min(at.offset-begin.offset, len(b.data)):]
}

// at reads what stands at a spot.
func (u *unpacker) at(at spot, depth int) (kind string, data []byte) {
	must(at.offset > 0 && at.offset < 1<<31 && depth > 0, notFound) // it is in two packs, or beyond 2 GiB
	// Behind the end of the pack there are zeros, which end each number.
	var head [64]byte
	copy(head[:], u.bytes(at))
	form, size, used := head[0]>>4&7, int(head[0]&15), 1
	for ; head[used-1] >= 0x80 && used < 6; used++ {
		size |= int(head[used]&0x7F) << (7*used - 3)
	}
	must(head[used-1] < 0x80 && size <= maxUnpacked, notFound)
	base := at
	switch form {
	case 1, 2, 3:
		kind = [...]string{"commit", "tree", "blob"}[form-1]
	case 6: // a delta of what stands so far before it
		back := int(head[used] & 0x7F)
		for used++; head[used-1] >= 0x80 && back < at.offset; used++ {
			back = (back+1)<<7 | int(head[used]&0x7F)
		}
		must(back > 0 && head[used-1] < 0x80, notFound)
		base.offset -= back
	case 7: // a delta of the object with an id
		base, _ = u.find(head[used : used+20])
		used += 20
	default:
		must(false, notFound)
	}
	must(base.pack == at.pack, notFound)
	var from *part
	if base != at { // before the delta is unzipped, as it takes the same room
		from = u.base(base, depth-1)
	}
	text := u.bytes(at)
	data, _ = u.unzip(text[min(used, len(text)):], size)
	must(len(data) == size, notFound)
	if from != nil {
		return from.kind, u.apply(from.data, data)
	}
	return kind, data
}

// base reads what other objects are a delta of.
func (u *unpacker) base(at spot, depth int) *part {
	must(at.offset > 0, notFound)
	b := &u.bases[at.offset%len(u.bases)]
	if b.spot != at {
		kind, data := u.at(at, depth)
		*b = part{at, kind, bytes.Clone(data)}
	}
	return b
}

// unzip undoes zlib (RFC 1950) and says how many bytes of text it used.
func (u *unpacker) unzip(text []byte, most int) (data []byte, used int) {
	// Most deltas are one stored block: two bytes of zlib, one of deflate, the length, and it inverted. Behind it is a sum.
	if len(text) >= most+11 && string(text[:3]) == "\x78\x01\x01" && int(binary.LittleEndian.Uint16(text[3:])) == most {
		data = text[7 : 7+most]
		sum := binary.BigEndian.Uint32(text[7+most:])
		must(binary.LittleEndian.Uint16(text[5:]) == ^uint16(most) && sum == adler32.Checksum(data), notFound)
		return data, most + 11
	}
	u.in.Reset(text)
	err := u.zlib.(zlib.Resetter).Reset(&u.in, nil)
	must(err == nil && text[0] == 0x78, notFound) // it says how far back a stream may look, which only 0x78 leaves open
	n := 0
	for more := 0; err == nil && n <= most; n += more {
		more, err = u.zlib.Read(u.room[n : most+1])
	}
	must(err == io.EOF && n <= most, notFound)
	return u.room[:n], len(text) - u.in.Len()
}

// apply builds an object from its base and a delta.
func (u *unpacker) apply(base, delta []byte) []byte {
	from, n1 := binary.Uvarint(delta)
	size, n2 := binary.Uvarint(delta[max(n1, 0):])
	must(n1 > 0 && n2 > 0 && from == uint64(len(base)) && size > 0 && size <= maxUnpacked, notFound)
	u.built = u.built[:0]
	for delta = delta[n1+n2:]; len(delta) > 0; {
		op, part := delta[0], delta[1:]
		length := int(op) // the next bytes of the delta
		if op >= 0x80 {   // a part of the base: four bytes of the place and three of the length, zeros left out
			said := 0
			for bit := range 7 {
				if op>>bit&1 == 1 {
					must(len(part) > 0, notFound)
					said |= int(part[0]) << (8 * bit)
					part = part[1:]
				}
			}
			delta = part
			part, length = base[min(said&0xFFFFFFFF, len(base)):], said>>32
			if length == 0 {
				length = 1 << 16
			}
		}
		must(length > 0 && length <= len(part) && len(u.built)+length <= int(size), notFound)
		u.built = append(u.built, part[:length]...)
		if op < 0x80 {
			delta = part[length:]
		}
	}
	must(len(u.built) == int(size), notFound)
	return u.built
}

// loose reads a loose object.
func (u *unpacker) loose(kind, name string) []byte {
	text := readFile(filepath.Join(u.folder, name[:2], name[2:]), maxUnpacked)
	all, used := u.unzip(text, maxUnpacked)
	header, data, _ := bytes.Cut(all, []byte{0})
	must(used == len(text) && string(header) == fmt.Sprintf("%s %d", kind, len(data)), notFound)
	return data
}
