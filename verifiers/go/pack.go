package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What follows finds objects faster than git does. It need not find all: those that it does not find, and those that are
// not good, are looked for with git (section 4). So whatever is odd here is no fault, but "not found".

const (
	maxUnpacked   = 64 << 10  // of an object, so that few bytes on the disk stand for no more than this
	maxIndexes    = 512 << 20 // bytes of all indexes
	maxPacks      = 128       // all are held open, and each is compared with all others
	maxAlternates = 64 << 10  // bytes of the file
	maxDepth      = 64        // deltas upon each other
)

// pack is a pack with its index, which is kept in memory.
type pack struct {
	file    *os.File
	size    int64
	fanout  [257]uint32 // how many ids begin with a lower byte
	ids     []byte
	offsets []byte
}

// openPacks gives the packs of a folder of objects and its alternates; nil if there is anything of which git may know more.
func openPacks(objects string) []*pack {
	packs := []*pack{}
	folders, plain := withAlternates(objects)
	left := int64(maxIndexes)
	for _, folder := range folders {
		entries, _ := os.ReadDir(filepath.Join(folder, "pack"))
		for _, entry := range entries {
			stem, isIndex := strings.CutSuffix(filepath.Join(folder, "pack", entry.Name()), ".idx")
			packed, err := os.Stat(stem + ".pack")
			if !plain || !isIndex || err != nil || !packed.Mode().IsRegular() {
				continue
			}
			var one *pack
			index, err := os.Stat(stem + ".idx")
			if err == nil && index.Mode().IsRegular() && index.Size() <= left && len(packs) < maxPacks {
				left -= index.Size()
				one = openPack(stem, packed.Size(), index.Size())
			}
			if plain = one != nil; plain {
				for _, other := range packs {
					one.strikeOut(other)
				}
				packs = append(packs, one)
			}
		}
	}
	if !plain {
		for _, one := range packs {
			one.file.Close()
		}
		return nil
	}
	return packs
}

// withAlternates gives the folder and its alternates; plain is false if git may know more of them.
func withAlternates(objects string) (folders []string, plain bool) {
	alternates := filepath.Join(objects, "info", "alternates")
	info, err := os.Lstat(alternates)
	folders, plain = []string{objects}, err != nil || info.Mode().IsRegular() && info.Size() <= maxAlternates
	if !plain {
		return nil, false
	}
	eachLine(alternates, func(line string) {
		// What a NUL or ".." stands for is not the same for the system, for git, and for all versions of it.
		if line == "" || line[0] == '#' || line[0] == '"' || strings.Contains(line, "\x00") || strings.Contains(line, "..") ||
			len(folders) > 8 {
			plain = false
			return
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(objects, line)
		}
		_, err := os.Lstat(filepath.Join(line, "info", "alternates"))
		plain = plain && err != nil
		folders = append(folders, line)
	})
	return folders, plain
}

// strikeOut takes from two packs what both have, as git decides which of them it reads.
func (p *pack) strikeOut(other *pack) {
	for i, j := 0, 0; i < len(p.ids) && j < len(other.ids); {
		order := bytes.Compare(p.ids[i:i+20], other.ids[j:j+20])
		if order == 0 {
			p.offsets[i/5], other.offsets[j/5] = 0xFF, 0xFF
		}
		if order <= 0 {
			i += 20
		}
		if order >= 0 {
			j += 20
		}
	}
}

// openPack gives nil for what git would not take for a pack and its index (version 2). The sizes are those of the files:
// no more is read, as there are files that have none and never end.
func openPack(stem string, size, indexSize int64) *pack {
	if size < 32 || indexSize < 1072 {
		return nil
	}
	index := make([]byte, indexSize)
	if !readAll(stem+".idx", index) || string(index[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return nil
	}
	// Git begins to read nothing in the sum at the end.
	p := &pack{size: size - 20}
	for i := range 256 {
		p.fanout[i+1] = binary.BigEndian.Uint32(index[8+4*i:])
		if p.fanout[i+1] < p.fanout[i] {
			return nil
		}
	}
	n, tables := int(p.fanout[256]), index[1032:len(index)-40]
	if large := len(tables) - 28*n; large < 0 || large > 8*max(0, n-1) || large%8 != 0 {
		return nil
	}
	p.ids, p.offsets = tables[:20*n], tables[24*n:28*n]
	for i := 20; i < len(p.ids); i += 20 {
		if bytes.Compare(p.ids[i-20:i], p.ids[i:i+20]) >= 0 {
			return nil
		}
	}
	var err error
	if p.file, err = os.Open(stem + ".pack"); err != nil {
		return nil
	}
	var header [12]byte
	var sum [20]byte
	p.file.ReadAt(header[:], 0)
	p.file.ReadAt(sum[:], p.size)
	if string(header[:8]) != "PACK\x00\x00\x00\x02" || binary.BigEndian.Uint32(header[8:]) != p.fanout[256] ||
		!bytes.Equal(sum[:], index[len(index)-40:len(index)-20]) {
		p.file.Close()
		return nil
	}
	return p
}

// readAll fills the buffer from the beginning of a file, and tells whether it could.
func readAll(path string, into []byte) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = io.ReadFull(file, into)
	return err == nil
}

// find gives the offset of an object; 0 if it is not there, -1 if only git can tell where (beyond 2 GiB, or in two packs).
func (p *pack) find(id oid) int64 {
	low, high := int(p.fanout[id[0]]), int(p.fanout[int(id[0])+1])
	begin := binary.BigEndian.Uint64(id[:])
	for low < high {
		middle := (low + high) / 2
		other := p.ids[20*middle : 20*middle+20]
		order := cmp.Compare(binary.BigEndian.Uint64(other), begin)
		if order == 0 {
			order = bytes.Compare(other, id[:])
		}
		switch {
		case order < 0:
			low = middle + 1
		case order > 0:
			high = middle
		default:
			offset := int64(binary.BigEndian.Uint32(p.offsets[4*middle:]))
			if offset == 0 || offset >= 1<<31 {
				return -1
			}
			return offset
		}
	}
	return 0
}

// unpacker reads objects. Each goroutine needs its own.
type unpacker struct {
	objects string // the folder
	packs   []*pack
	newest  int // where the last object was
	inflater
	room   []byte
	blocks [64]block
	long   []byte
	bases  [512]base // read as the base of others, each in the place that its offset gives it
}

// block is a part of a pack, and the beginning of the next one.
type block struct {
	pack   *pack
	number int64
	data   []byte
}

const (
	blockSize = 16 << 10
	overlap   = 4 << 10
)

type base struct {
	pack   *pack
	offset int64
	kind   string
	data   []byte
}

func newUnpacker(objects string, packs []*pack) *unpacker {
	return &unpacker{objects: objects, packs: packs, room: make([]byte, 0, maxUnpacked)}
}

// read gives the bytes of an object, which live until the next call; nil if it is not found.
func (u *unpacker) read(kind string, id oid) (data []byte) {
	for i := range u.packs {
		at := (i + u.newest) % len(u.packs)
		if offset := u.packs[at].find(id); offset < 0 {
			return nil
		} else if offset > 0 {
			u.newest = at
			found, data := u.at(u.packs[at], offset, u.room[:0], maxDepth)
			if found != kind {
				return nil
			}
			return data
		}
	}
	return u.loose(kind, id)
}

// bytes gives so many bytes of a pack, fewer at its end.
func (u *unpacker) bytes(p *pack, offset int64, length int) []byte {
	length = int(max(0, min(int64(length), p.size-offset)))
	if length > overlap {
		u.long = slices.Grow(u.long[:0], length)[:length]
		n, _ := p.file.ReadAt(u.long, offset)
		return u.long[:n]
	}
	number := offset / blockSize
	b := &u.blocks[number%int64(len(u.blocks))]
	if b.pack != p || b.number != number {
		if b.data == nil {
			b.data = make([]byte, blockSize+overlap)
		}
		n, _ := p.file.ReadAt(b.data[:blockSize+overlap], number*blockSize)
		b.pack, b.number, b.data = p, number, b.data[:n]
	}
	from := min(int(offset%blockSize), len(b.data))
	return b.data[from:min(from+length, len(b.data))]
}

// at reads what stands at an offset of a pack, appending to out, which is empty.
func (u *unpacker) at(p *pack, offset int64, out []byte, depth int) (kind string, data []byte) {
	var head [64]byte // behind the end of the pack zeros, which end each number
	copy(head[:], u.bytes(p, offset, len(head)))
	form, size, used := head[0]>>4&7, int(head[0]&15), 1
	for ; head[used-1] >= 0x80 && used < 6; used++ {
		size |= int(head[used]&0x7F) << (7*used - 3)
	}
	if head[used-1] >= 0x80 {
		return "", nil
	}
	var from int64
	switch form {
	case 1, 2, 3:
		return [...]string{"commit", "tree", "blob"}[form-1], u.unzip(p, offset+int64(used), out, size)
	case 6: // a delta of what stands so far before it
		from = int64(head[used] & 0x7F)
		for used++; head[used-1] >= 0x80 && from < offset; used++ {
			from = (from+1)<<7 | int64(head[used]&0x7F)
		}
		if from == 0 || head[used-1] >= 0x80 {
			return "", nil
		}
		from = offset - from
	case 7: // a delta of the object with an id
		from = p.find(oid(head[used : used+20]))
		used += 20
	}
	if from <= 0 || depth == 0 {
		return "", nil
	}
	delta := u.unzip(p, offset+int64(used), nil, size)
	b := &u.bases[from%int64(len(u.bases))]
	if b.pack != p || b.offset != from {
		kind, data := u.at(p, from, nil, depth-1)
		*b = base{p, from, kind, data}
	}
	return b.kind, apply(out, b.data, delta)
}

// unzip gives what is deflated at an offset: size bytes.
func (u *unpacker) unzip(p *pack, offset int64, out []byte, size int) []byte {
	if size > maxUnpacked {
		return nil
	}
	// Those who write packs need no more room than this for what cannot be made smaller.
	data, _, good := u.inflate(slices.Grow(out, size), u.bytes(p, offset, size+size/1000+32), size)
	if !good || len(data) != size {
		return nil
	}
	return data
}

// apply builds an object from its base and a delta; nil if the delta is odd.
func apply(out, base, delta []byte) []byte {
	from, n1 := binary.Uvarint(delta)
	size, n2 := binary.Uvarint(delta[max(n1, 0):])
	if base == nil || n1 <= 0 || n2 <= 0 || from != uint64(len(base)) || size == 0 || size > maxUnpacked {
		return nil
	}
	for delta = delta[n1+n2:]; len(delta) > 0; {
		op := delta[0]
		delta = delta[1:]
		part := delta[:min(int(op), len(delta))]
		if op < 0x80 { // the next bytes of the delta
			delta = delta[len(part):]
		} else { // a part of the base: four bytes of the place and three of the length, zeros left out
			var at, length int
			for bit := range 7 {
				if op>>bit&1 == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil
				}
				if bit < 4 {
					at |= int(delta[0]) << (8 * bit)
				} else {
					length |= int(delta[0]) << (8 * (bit - 4))
				}
				delta = delta[1:]
			}
			if length == 0 {
				length = 1 << 16
			}
			if at+length > len(base) {
				return nil
			}
			part = base[at : at+length]
		}
		if len(part) == 0 || uint64(len(out)+len(part)) > size {
			return nil
		}
		out = append(out, part...)
	}
	if uint64(len(out)) != size {
		return nil
	}
	return out
}

// loose reads a loose object.
func (u *unpacker) loose(kind string, id oid) []byte {
	name := id.String()
	path := filepath.Join(u.objects, name[:2], name[2:])
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxUnpacked {
		return nil
	}
	text := make([]byte, info.Size())
	if !readAll(path, text) {
		return nil
	}
	all, used, good := u.inflate(u.room[:0], text, cap(u.room))
	header, data, _ := bytes.Cut(all, []byte{0})
	if !good || used != len(text) || string(header) != fmt.Sprintf("%s %d", kind, len(data)) {
		return nil
	}
	return data
}
