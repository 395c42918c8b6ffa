package main

import (
	"encoding/binary"
	"hash/adler32"
	"math/bits"
)

// inflate undoes zlib (RFC 1950, RFC 1951), faster than compress/zlib does it for what is short and all there. It appends
// at most so many bytes and says how many of text were used; what breaks a rule, or is longer, is not good.
func (i *inflater) inflate(out, text []byte, most int) (data []byte, used int, good bool) {
	if len(text) < 6 || text[0] != 0x78 || binary.BigEndian.Uint16(text)%31 != 0 || text[1]&0x20 != 0 {
		return nil, 0, false
	}
	i.text, i.at, i.held, i.count = text, 2, 0, 0
	i.out, i.end = out, len(out)+most
	for last := uint64(0); last == 0; {
		i.fill()
		last = i.take(1)
		switch i.take(2) {
		case 0:
			good = i.stored()
		case 1:
			good = i.literals.build(fixedLengths[:288]) && i.distances.build(fixedLengths[288:]) && i.block()
		case 2:
			good = i.lengths() && i.block()
		default:
			good = false
		}
		if !good {
			return nil, 0, false
		}
	}
	used = i.at - int(i.count/8) // whole bytes that are held are not used
	if used+4 > len(text) || binary.BigEndian.Uint32(text[used:]) != adler32.Checksum(i.out[len(out):]) {
		return nil, 0, false
	}
	return i.out, used + 4, true
}

type inflater struct {
	text      []byte
	at        int
	held      uint64 // bits of text before at, the next one lowest
	count     uint   // of them
	out       []byte
	end       int // of out, at most
	literals  huffman
	distances huffman
}

// fill makes at least 48 bits held. Behind the end of the text there are zeros, whose use is noticed when it is over.
func (i *inflater) fill() {
	if i.at+8 <= len(i.text) {
		i.held |= binary.LittleEndian.Uint64(i.text[i.at:]) << i.count
		i.at += int(63-i.count) / 8
		i.count |= 56
		return
	}
	for ; i.count <= 56; i.count += 8 {
		if i.at < len(i.text) {
			i.held |= uint64(i.text[i.at]) << i.count
		}
		i.at++
	}
}

func (i *inflater) take(count uint) uint64 {
	value := i.held & (1<<count - 1)
	i.held >>= count
	i.count -= count
	return value
}

func (i *inflater) stored() bool {
	i.take(i.count % 8)
	begin := i.at - int(i.count/8)
	if begin+4 > len(i.text) {
		return false
	}
	size := int(binary.LittleEndian.Uint16(i.text[begin:]))
	i.at, i.held, i.count = begin+4+size, 0, 0
	if binary.LittleEndian.Uint16(i.text[begin+2:]) != ^uint16(size) || i.at > len(i.text) || len(i.out)+size > i.end {
		return false
	}
	i.out = append(i.out, i.text[begin+4:i.at]...)
	return true
}

var (
	fixedLengths = func() (all [320]byte) {
		for i := range all {
			switch {
			case i < 144, i >= 280 && i < 288:
				all[i] = 8
			case i < 256:
				all[i] = 9
			case i < 280:
				all[i] = 7
			default:
				all[i] = 5
			}
		}
		return all
	}()
	lengthOrder   = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	copyLengths   = [29]int{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	copyDistances = [30]int{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
)

// lengths reads the codes of a block.
func (i *inflater) lengths() bool {
	literals, distances, count := int(i.take(5))+257, int(i.take(5))+1, int(i.take(4))+4
	var all [320]byte
	for _, symbol := range lengthOrder[:count] {
		i.fill()
		all[symbol] = byte(i.take(3))
	}
	if literals > 286 || distances > 30 || !i.literals.build(all[:19]) {
		return false
	}
	clear(all[:19])
	for n := 0; n < literals+distances; {
		i.fill()
		symbol := i.symbol(&i.literals)
		times, value := 1, byte(symbol)
		switch {
		case symbol == 16 && n > 0:
			times, value = 3+int(i.take(2)), all[n-1]
		case symbol == 17:
			times, value = 3+int(i.take(3)), 0
		case symbol == 18:
			times, value = 11+int(i.take(7)), 0
		case symbol > 15 || symbol < 0:
			return false
		}
		if n+times > literals+distances {
			return false
		}
		for ; times > 0; times-- {
			all[n] = value
			n++
		}
	}
	return all[256] > 0 && i.literals.build(all[:literals]) && i.distances.build(all[literals:literals+distances])
}

// block reads what is compressed in a block.
func (i *inflater) block() bool {
	out := i.out
	for i.at < len(i.text)+8 {
		if i.count < 48 {
			i.fill()
		}
		symbol := i.symbol(&i.literals)
		if symbol < 256 {
			if symbol < 0 || len(out) == i.end {
				return false
			}
			out = append(out, byte(symbol))
			continue
		}
		if symbol == 256 {
			i.out = out
			return true
		}
		if symbol -= 257; symbol >= len(copyLengths) {
			return false
		}
		length := copyLengths[symbol]
		if symbol >= 8 && symbol < 28 {
			length += int(i.take(uint(symbol/4 - 1)))
		}
		symbol = i.symbol(&i.distances)
		if symbol < 0 || symbol >= len(copyDistances) {
			return false
		}
		distance := copyDistances[symbol]
		if symbol >= 4 {
			distance += int(i.take(uint(symbol/2 - 1)))
		}
		from := len(out) - distance
		if from < 0 || len(out)+length > i.end {
			return false
		}
		for ; length > distance; length -= distance { // what is repeated overlaps itself
			out = append(out, out[from:from+distance]...)
		}
		out = append(out, out[from:from+length]...)
	}
	return false
}

// huffman is a canonical code.
type huffman struct {
	fast    [512]uint16 // by the next nine bits: symbol * 16 + length, 0 for a longer code
	counts  [16]int     // of codes of each length; none of length 0
	symbols [288]uint16 // by length, then by value
}

// build takes the lengths of all codes. They must leave nothing over, but for one code alone.
func (h *huffman) build(lengths []byte) bool {
	h.counts = [16]int{}
	for _, length := range lengths {
		h.counts[length]++
	}
	h.counts[0] = 0
	var next, codes [16]int // of each length: where its symbols begin, and its first code
	left, code, all := 1, 0, 0
	for length := 1; length < 16; length++ {
		left = 2*left - h.counts[length]
		if left < 0 {
			return false
		}
		code = (code + h.counts[length-1]) << 1
		next[length], codes[length] = all, code
		all += h.counts[length]
	}
	if left > 0 && (all > 1 || h.counts[1] != all) {
		return false
	}
	h.fast = [512]uint16{}
	for symbol, length := range lengths {
		if length == 0 {
			continue
		}
		h.symbols[next[length]] = uint16(symbol)
		next[length]++
		if length <= 9 {
			for at := int(bits.Reverse16(uint16(codes[length])) >> (16 - length)); at < 512; at += 1 << length {
				h.fast[at] = uint16(symbol)<<4 | uint16(length)
			}
		}
		codes[length]++
	}
	return true
}

// symbol reads a symbol; -1 if there is no such code.
func (i *inflater) symbol(h *huffman) int {
	found := h.fast[i.held&511]
	if found == 0 {
		return i.longSymbol(h)
	}
	i.held >>= found & 15
	i.count -= uint(found & 15)
	return int(found >> 4)
}

func (i *inflater) longSymbol(h *huffman) int {
	code, first, index := 0, 0, 0
	for _, count := range h.counts[1:] {
		code |= int(i.take(1))
		if code-first < count {
			return int(h.symbols[index+code-first])
		}
		index, first, code = index+count, (first+count)<<1, code<<1
	}
	return -1
}
