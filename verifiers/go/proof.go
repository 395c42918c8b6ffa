package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

const maxProof = 64 << 20

// checkExport checks an export (sections 7 and 11): each line an event, each with a newline.
func checkExport(path string, o *options) (*line, error) {
	in, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	l := newLine(newReport("", ""), o.trust)
	lines := bufio.NewReaderSize(in, 1<<20)
	var raw []byte
	for {
		var complete bool
		if raw, complete, err = readLine(lines, raw[:0]); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		l.headSeq++
		l.seq = l.headSeq
		if l.full() {
			continue // only counted
		}
		var e event
		code := "truncated"
		if complete {
			e, code = l.reader.event(raw)
		}
		if code != "" {
			l.fault(code)
			l.lose()
			continue
		}
		l.step(&e)
		for k := range e.files {
			code := checkFile(fmt.Sprintf("%s.files/%d.%d", path, l.seq, k+1), e.files[k])
			if code != "" {
				l.add(code, l.seq, string(l.prev))
			} else {
				l.sideFiles++
			}
		}
	}
	if l.headSeq == 0 {
		return nil, errors.New("no line in it")
	}
	l.end(o)
	return l, nil
}

// openFile opens a regular file.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("no regular file")
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// checkFile checks a side file of an export.
func checkFile(path string, said file) string {
	in := openRegular(path)
	if in == nil {
		return "missing-object"
	}
	defer in.Close()
	hash := sha256.New()
	if size, err := io.CopyN(hash, in, said.size+1); err != io.EOF || (file{size, hex.EncodeToString(hash.Sum(nil))}) != said {
		return "bad-file"
	}
	return ""
}

// checkProof checks a proof (section 9). The first broken rule is the only finding, but for signatures.
func checkProof(path string, o *options) (*report, error) {
	in, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, maxProof+1))
	if err != nil {
		return nil, err
	}
	r := newReport("", "")
	seals, code := readProof(raw, r)
	if code != "" {
		r.add(code, 0, "")
	} else {
		for i := range seals {
			seals[i].check(r, o.trust, 0, "")
		}
	}
	if o.requireSigned && r.signedTo == 0 {
		r.add("bad-signature", 0, "")
	}
	return r, nil
}

// hasFewValues tells whether at most 1,000 of the bytes , [ { stand outside of strings: each value takes far more room
// than its text.
func hasFewValues(text []byte) bool {
	marks, quoted := 0, false
	for i := 0; i < len(text) && marks <= 1000; i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			marks++
		}
	}
	return marks <= 1000
}

// readProof checks all but the signatures, and gives the seals.
func readProof(raw []byte, r *report) (seals []sealed, code string) {
	var json scanner
	body := bytes.TrimSuffix(raw, []byte("\n"))
	if len(raw) > maxProof || !hasFewValues(body) {
		return nil, "bad-json"
	}
	if code := json.scan(body); code == "bad-json" {
		return nil, "bad-json"
	} else if code != "" || len(body) == len(raw) {
		return nil, "not-canonical"
	}
	if body[0] != '{' {
		return nil, "bad-json"
	}
	top := json.parts
	if string(get(top, "format")) != `"gitjournal-proof"` || string(get(top, "version")) != "1" {
		return nil, "bad-version"
	}
	names := map[string][]string{`"inclusion"`: {"event", "seal"}, `"consistency"`: {"first", "second"}}[string(get(top, "kind"))]
	path, isPath := readPath(get(top, "path"))
	if names == nil || !isPath || len(top) != 6 || !isText(get(top, names[0])) || !isText(get(top, names[1])) {
		return nil, "bad-member"
	}
	var events [2]event
	for i, name := range names {
		var one reader
		if events[i], code = one.event(text(get(top, name))); code != "" {
			return nil, code
		}
		if name == "event" {
			if events[i].data == nil {
				r.addWithheld(events[i].seq)
			}
		} else if !events[i].is("session.seal") {
			return nil, "bad-seal"
		}
	}
	for i, name := range names {
		if name == "event" {
			continue
		}
		seal, good := readSeal(&events[i], events[i].seq)
		if !good {
			return nil, "bad-seal"
		}
		seals = append(seals, seal)
		r.seals++
		if i == 1 {
			r.headSeq = seal.size
		}
	}
	if len(seals) == 1 && !includes(path, events[0].seq, &seals[0], events[0].hash) ||
		len(seals) == 2 && (seals[0].session != seals[1].session || !consistent(path, &seals[0], &seals[1])) {
		return nil, "bad-seal"
	}
	return seals, ""
}

// readPath reads at most 64 hashes in base64.
func readPath(list []byte) (path [][32]byte, good bool) {
	parts := split(list)
	if len(list) == 0 || list[0] != '[' || len(parts) > 64 {
		return nil, false
	}
	for _, part := range parts {
		encoded, isString := textIf(part.value, anyText)
		raw, isBase64 := unbase64(string(encoded))
		if !isString || !isBase64 || len(raw) != 32 {
			return nil, false
		}
		var hash [32]byte
		copy(hash[:], raw)
		path = append(path, hash)
	}
	return path, true
}

// includes is RFC 9162 section 2.1.3.2, with the names that it has there.
func includes(path [][32]byte, seq int64, seal *sealed, leaf [32]byte) bool {
	if seq > seal.size {
		return false
	}
	fn, sn, r := seq-1, seal.size-1, leafHash(leaf[:])
	for _, p := range path {
		if sn == 0 {
			return false
		}
		if fn%2 == 1 || fn == sn {
			r = nodeHash(p, r)
			for fn%2 == 0 && fn != 0 {
				fn, sn = fn/2, sn/2
			}
		} else {
			r = nodeHash(r, p)
		}
		fn, sn = fn/2, sn/2
	}
	return sn == 0 && r == seal.root
}

// consistent is RFC 9162 section 2.1.4.2.
func consistent(path [][32]byte, first, second *sealed) bool {
	if first.size >= second.size {
		return first.size == second.size && first.root == second.root && len(path) == 0
	}
	if len(path) == 0 {
		return false
	}
	if first.size&(first.size-1) == 0 { // a power of two
		path = append([][32]byte{first.root}, path...)
	}
	fn, sn := first.size-1, second.size-1
	for fn%2 == 1 {
		fn, sn = fn/2, sn/2
	}
	fr, sr := path[0], path[0]
	for _, c := range path[1:] {
		if sn == 0 {
			return false
		}
		if fn%2 == 1 || fn == sn {
			fr, sr = nodeHash(c, fr), nodeHash(c, sr)
			for fn%2 == 0 && fn != 0 {
				fn, sn = fn/2, sn/2
			}
		} else {
			sr = nodeHash(sr, c)
		}
		fn, sn = fn/2, sn/2
	}
	return fr == first.root && sr == second.root && sn == 0
}
