package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// line is the state of section 7.
type line struct {
	*report
	trust     *trust
	reader    reader
	seq       int64  // place of the event that is looked at
	blob      *oid   // its blob; nil in an export
	prev      []byte // hex of the hash before, nil: null
	prevKnown bool
	session   string // empty: none
	epoch     int64
	branch    string
	hashes    []byte // 32 bytes for each place; zeros: lost
	firstLost int64  // 0: none
	declared  map[int64]bool
	tree      merkle
}

func newLine(r *report, t *trust) *line {
	return &line{report: r, trust: t, prevKnown: true, epoch: 1, branch: "main", declared: map[int64]bool{}}
}

// id gives the id that findings of an event have.
func (l *line) id() string {
	if l.blob == nil {
		return ""
	}
	return l.blob.String()
}

func (l *line) fault(code string) { l.add(code, l.seq, l.id()) }

// lose notes that the event at seq is not there, or is none.
func (l *line) lose() {
	l.hashes = append(l.hashes, make([]byte, 32)...)
	l.prevKnown = false
	if l.firstLost == 0 {
		l.firstLost = l.seq
	}
}

// whole gives the number of first events that are not lost.
func (l *line) whole() int64 {
	if l.firstLost > 0 {
		return l.firstLost - 1
	}
	return int64(len(l.hashes) / 32)
}

// hashAt gives the hex of the event hash at a place: empty if there is no such place, or the event is lost.
func (l *line) hashAt(seq int64) (hash string, lost bool) {
	if seq < 1 || seq > int64(len(l.hashes)/32) {
		return "", false
	}
	bytes32 := l.hashes[32*seq-32 : 32*seq]
	if bytes.Equal(bytes32, make([]byte, 32)) {
		return "", true
	}
	return hex.EncodeToString(bytes32), false
}

// step checks the event at l.seq against those before it.
func (l *line) step(e *event) {
	if e.seq != l.seq {
		l.fault("bad-seq")
	}
	if l.prevKnown && !bytes.Equal(e.prev, l.prev) {
		l.fault("broken-link")
	}
	if e.epoch < l.epoch {
		l.fault("bad-epoch")
	}
	if l.session != "" && string(e.session) != l.session && !e.is("session.fork") {
		l.fault("bad-session")
	}
	if (e.is("session.branch") || e.is("session.fork")) && !l.fork(e) {
		l.fault("bad-fork")
	}
	l.prev, l.prevKnown = appendHex(l.prev[:0], e.hash[:]), true
	l.hashes = append(l.hashes, e.hash[:]...)
	if string(e.session) != l.session {
		l.session = string(e.session)
	}
	if e.epoch > l.epoch {
		l.epoch = e.epoch
	}
	if e.data == nil {
		l.addWithheld(l.seq)
	}
	if e.is("session.seal") {
		l.seals++
		l.seal(e)
	}
}

// fork checks a session.branch or session.fork and notes what it says.
func (l *line) fork(e *event) (good bool) {
	members := split(e.data)
	source := get(members, "from")
	from := split(source)
	seq, whole := integer(get(from, "seq"))
	if len(source) == 0 || source[0] != '{' || !whole {
		return false
	}
	if e.is("session.branch") {
		name, isName := textIf(get(members, "branch"), isName)
		if isName {
			l.branch = string(name)
		}
		good = isName && seq >= 1 && seq < l.seq
	} else {
		session, isString := textIf(get(from, "session"), anyText)
		sameFrom := isString && string(session) == l.session && string(e.session) != l.session
		good = (l.session == "" || sameFrom) && seq == l.seq-1
		l.branch = "main"
	}
	hash, lost := l.hashAt(seq)
	if lost || hash == "" { // there is nothing to compare it with; outside of the line has been found above
		return good
	}
	if named, isString := textIf(get(from, "hash"), anyText); !isString || string(named) != hash {
		return false
	}
	l.declared[seq] = true
	return good
}

func anyText([]byte) bool { return true }

// seal checks a session.seal and its signatures (section 9). Nothing of it can be checked when an event before is lost.
func (l *line) seal(e *event) {
	if l.firstLost > 0 {
		return
	}
	for l.tree.size < l.seq-1 {
		l.tree.add(l.hashes[32*l.tree.size : 32*l.tree.size+32])
	}
	s, good := readSeal(e, l.seq)
	if !good || s.root != l.tree.root() || s.branch != encode(l.branch) {
		l.fault("bad-seal")
		return
	}
	s.check(l.report, l.trust, l.seq, l.id())
}

// end checks what can be said of a whole line only, and takes its head.
func (l *line) end(o *options) {
	l.headHash, _ = l.hashAt(l.headSeq)
	l.expect(o)
	if o.requireSigned && l.signedTo == 0 {
		l.add("bad-signature", 0, "")
	}
}

func (l *line) expect(o *options) {
	if o.expectSeq == 0 {
		return
	}
	if l.headSeq < o.expectSeq {
		l.add("truncated", l.headSeq, o.expectHead)
	} else if hash, _ := l.hashAt(o.expectSeq); hash != o.expectHead {
		l.add("rollback", o.expectSeq, o.expectHead)
	}
}

// equivocates looks for the place where two lines of a session go apart; l is the later one.
func (l *line) equivocates(other *line) {
	most := l.whole()
	if m := other.whole(); m < most {
		most = m
	}
	equal := int64(0)
	for equal < most && bytes.Equal(l.hashes[32*equal:32*equal+32], other.hashes[32*equal:32*equal+32]) {
		equal++
	}
	if equal < most && !l.declared[equal] && !other.declared[equal] {
		hash, _ := l.hashAt(equal + 1)
		l.add("equivocation", equal+1, hash)
	}
}

// encode spells a name as a part of a ref (format 7).
func encode(name string) string {
	var out []byte
	for i := 0; i < len(name); i++ {
		c, rest := name[i], name[i+1:]
		odd := c == '.' && (rest == "" || rest[0] == '.' || rest == "lock")
		if !odd && (turnSet[c] || c == '.') && (i > 0 || c != '.' && c != '-') {
			out = append(out, c)
		} else {
			out = append(out, fmt.Sprintf("%%%02X", c)...)
		}
	}
	return string(out)
}

var escaped = regexp.MustCompile(`%[0-9A-F]{2}`)

// isPart tells whether a part of a ref is spelled as encode does it.
func isPart(part string) bool {
	name := escaped.ReplaceAllStringFunc(part, func(code string) string {
		c, _ := hex.DecodeString(code[1:])
		return string(c)
	})
	return utf8.ValidString(name) && isName([]byte(name)) && encode(name) == part
}

// merkle computes the tree hash of RFC 9162 section 2.1.1: the roots of full trees, the biggest first.
type merkle struct {
	size  int64
	roots [][32]byte
}

func leafHash(leaf []byte) [32]byte { return sha256.Sum256(append([]byte{0}, leaf...)) }

func nodeHash(left, right [32]byte) [32]byte {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

func (m *merkle) add(leaf []byte) {
	hash := leafHash(leaf)
	for size := m.size; size%2 == 1; size /= 2 {
		last := len(m.roots) - 1
		hash = nodeHash(m.roots[last], hash)
		m.roots = m.roots[:last]
	}
	m.roots = append(m.roots, hash)
	m.size++
}

// root gives the tree hash over what was added: one leaf or more.
func (m *merkle) root() [32]byte {
	hash := m.roots[len(m.roots)-1]
	for i := len(m.roots) - 2; i >= 0; i-- {
		hash = nodeHash(m.roots[i], hash)
	}
	return hash
}
