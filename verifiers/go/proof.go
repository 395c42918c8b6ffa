package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// sealed is what a session.seal says that keeps the rules 1, 3 and 4 of section 9.
type sealed struct {
	size, time int64
	root       [32]byte
	session    string
	branch     string // encoded
	checkpoint []byte
	signatures [][2]string // fingerprint, armour
}

// readSeal reads a seal at a place. That the root is that of the events, and the branch that of the line, is left to the
// caller.
func readSeal(e *event, seq int64) sealed {
	data, _ := split(e.data, '{')
	must(data.are([]string{"checkpoint", "root", "signatures", "size"}), "bad-seal")
	size, root := integer(data.get("size")), textIf(data.get("root"), isHash)
	must(size == seq-1 && size != 0 && root != nil, "bad-seal")
	s := sealed{size: size, time: e.time, session: string(e.session)}
	s.checkpoint = textIf(data.get("checkpoint"), anyText)
	hex.Decode(s.root[:], root)
	first, _, _ := strings.Cut(string(s.checkpoint), "\n")
	origin := "gitjournal/" + encode(s.session) + "/"
	s.branch = strings.TrimPrefix(first, origin)
	text := fmt.Sprintf("%s%s\n%d\n%s\n", origin, s.branch, size, base64.StdEncoding.EncodeToString(s.root[:]))
	must(text == string(s.checkpoint) && isPart(s.branch), "bad-seal")
	list, isArray := split(data.get("signatures"), '[')
	must(isArray, "bad-seal")
	for _, one := range list {
		pair, _ := split(one.value, '{')
		key, armour := textIf(pair.get("key"), anyText), textIf(pair.get("sshsig"), anyText)
		must(len(pair) == 2 && key != nil && armour != nil, "bad-seal")
		s.signatures = append(s.signatures, [2]string{string(key), string(armour)})
	}
	return s
}

// check checks the signatures of a seal.
func (s *sealed) check(r *report, t *trust, seq int64, id string) {
	for _, pair := range s.signatures {
		r.signature(t, signed{"gitjournal", s.checkpoint, s.time, s.size}, pair[1], &pair[0], seq, id)
	}
}

// checkExport checks an export (sections 7 and 11): each line an event, each with a newline.
func checkExport(in io.Reader, o *options) *report {
	l := newLine(newReport("", ""), o.trust)
	lines, raw := bufio.NewReaderSize(in, 1<<20), []byte(nil)
	for {
		if raw = readLine(lines, raw[:0]); len(raw) == 0 {
			break
		}
		l.headSeq++
		l.seq = l.headSeq
		if !l.full() { // else it is only counted
			l.checkLine(raw, o.path)
		}
	}
	must(l.headSeq > 0, "no line in it")
	l.end(o)
	return l.report
}

// readLine gives the next line and its newline, if it has one; of one that is longer than an event may be, only so much as
// shows that; nothing at the end.
func readLine(in *bufio.Reader, line []byte) []byte {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxEvent || err == nil {
			line = append(line, part...)
		}
		if err == nil || err == io.EOF {
			return line
		} else if err != bufio.ErrBufferFull {
			sure(err)
		}
	}
}

// checkLine checks a line of an export, and its side files.
func (l *line) checkLine(raw []byte, path string) {
	var e event
	code := "truncated"
	if text, complete := bytes.CutSuffix(raw, []byte("\n")); complete {
		code = attempt(func() { e = l.json.event(text) })
	}
	if code != "" {
		l.lose(code)
		return
	}
	l.step(&e)
	for k, said := range e.files {
		if code := checkFile(fmt.Sprintf("%s.files/%d.%d", path, l.seq, k+1), said); code != "" {
			l.add(code, l.seq, string(l.prev))
		} else {
			l.sideFiles++
		}
	}
}

// checkFile checks a side file of an export.
func checkFile(path string, said file) (code string) {
	in := openRegular(path)
	if in == nil {
		return "missing-object"
	}
	defer in.Close()
	hash := sha256.New()
	size, err := io.CopyN(hash, in, said.size+1)
	if err != io.EOF || (file{size, hex.EncodeToString(hash.Sum(nil))}) != said {
		return "bad-file"
	}
	return ""
}

const maxProof = 64 << 20

// checkProof checks a proof (section 9). The first broken rule is the only finding, but for signatures.
func checkProof(in io.Reader, o *options) *report {
	raw, err := io.ReadAll(io.LimitReader(in, maxProof+1))
	sure(err)
	r := newReport("", "")
	code := attempt(func() {
		for _, one := range readProof(raw, r) {
			one.check(r, o.trust, 0, "")
		}
	})
	if code != "" {
		r.add(code, 0, "")
	}
	if o.requireSigned && r.signedTo == 0 {
		r.add("bad-signature", 0, "")
	}
	return r
}

// readProof checks all but the signatures, and gives the seals. The rules stand in the order of section 9.
func readProof(raw []byte, r *report) (seals []sealed) {
	var json scanner
	body, complete := bytes.CutSuffix(raw, []byte("\n"))
	must(len(raw) <= maxProof, "bad-json")
	json.scan(body, 1000) // each value takes far more room than its text
	must(complete, "not-canonical")
	must(body[0] == '{', "bad-json")
	top := json.parts
	must(string(top.get("format")) == `"gitjournal-proof"` && string(top.get("version")) == "1", "bad-version")
	kind, names := string(top.get("kind")), []string{"event", "seal"}
	must(kind == `"inclusion"` || kind == `"consistency"`, "bad-member")
	if kind == `"consistency"` {
		names = []string{"first", "second"}
	}
	must(top.are(append(names, "format", "kind", "path", "version")), "bad-member")
	must(isText(top.get(names[0])) && isText(top.get(names[1])), "bad-member")
	path := readPath(top.get("path"))
	var events [2]event
	for i, name := range names {
		events[i] = new(scanner).event(text(top.get(name)))
		must(name == "event" || events[i].is("session.seal"), "bad-seal")
		if events[i].data == nil {
			r.addWithheld(events[i].seq)
		}
	}
	for i, name := range names {
		if name != "event" {
			seals = append(seals, readSeal(&events[i], events[i].seq))
			r.seals++
		}
	}
	first, last := &seals[0], &seals[len(seals)-1]
	r.headSeq = last.size
	if kind == `"inclusion"` {
		must(includes(path, events[0].seq, last, events[0].hash), "bad-seal")
	} else {
		must(first.session == last.session && consistent(path, first, last), "bad-seal")
	}
	return seals
}

// readPath reads at most 64 hashes in base64.
func readPath(list []byte) (path [][32]byte) {
	elements, isArray := split(list, '[')
	must(isArray && len(elements) <= 64, "bad-member")
	for _, one := range elements {
		raw, isBase64 := unbase64(string(textIf(one.value, anyText)))
		must(isBase64 && len(raw) == 32, "bad-member")
		path = append(path, [32]byte(raw))
	}
	return path
}

// climb goes up a tree beside a path, for sections 2.1.3.2 and 2.1.4.2 of RFC 9162, with the names that it has there. It
// tells each hash to step, and whether that stands to the left; false if the path does not end at the root.
func climb(fn, sn int64, path [][32]byte, step func(p [32]byte, left bool)) bool {
	for _, p := range path {
		if sn == 0 {
			return false
		}
		left := fn%2 == 1 || fn == sn
		step(p, left)
		for left && fn%2 == 0 && fn != 0 {
			fn, sn = fn/2, sn/2
		}
		fn, sn = fn/2, sn/2
	}
	return sn == 0
}

// includes is section 2.1.3.2.
func includes(path [][32]byte, seq int64, seal *sealed, leaf [32]byte) bool {
	r := leafHash(leaf[:])
	ends := climb(seq-1, seal.size-1, path, func(p [32]byte, left bool) {
		if left {
			r = nodeHash(p, r)
		} else {
			r = nodeHash(r, p)
		}
	})
	return seq <= seal.size && ends && r == seal.root
}

// consistent is section 2.1.4.2.
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
	ends := climb(fn, sn, path[1:], func(c [32]byte, left bool) {
		if left {
			fr, sr = nodeHash(c, fr), nodeHash(c, sr)
		} else {
			sr = nodeHash(sr, c)
		}
	})
	return ends && fr == first.root && sr == second.root
}
