package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxEvent = 16 << 20
	maxSeq   = 99999999
	maxFiles = 1000
)

// file is what an event says of a side file.
type file struct {
	size   int64
	sha256 string // hex
}

// event is what the rules of a line need. It lives as long as the bytes that it was read from.
type event struct {
	seq, epoch, time           int64 // time: the whole seconds of ts
	session, prev, kind, actor []byte
	data                       []byte // text of the payload; nil if it is withheld
	files                      []file
	hash                       [32]byte
}

func (e *event) is(kind string) bool { return string(e.kind) == kind }

var required = []string{"actor", "epoch", "prev", "seq", "session", "ts", "type", "v"}

// event reads an event; the rules stand in the order of section 6.
func (s *scanner) event(raw []byte) (e event) {
	must(len(raw) <= maxEvent, "bad-member")
	s.scan(raw, len(raw))
	must(raw[0] == '{', "bad-json")
	m := s.parts
	must(string(m.get("v")) == "1", "bad-version")
	must(m.are(required, "data", "data_sha256", "files", "salt", "turn"), "bad-member")
	e.seq, e.epoch = integer(m.get("seq")), integer(m.get("epoch"))
	must(e.seq >= 1 && e.seq <= maxSeq, "bad-seq")
	must(e.epoch >= 1, "bad-epoch")
	s.members(&e)
	must((e.prev == nil) == (e.seq == 1), "broken-link")
	must(e.data != nil || !e.is("session.branch") && !e.is("session.fork"), "bad-fork")
	must(e.data != nil || !e.is("session.seal"), "bad-seal")
	must(e.is("session.start") == (e.seq == 1), "bad-fork")
	if e.data == nil {
		e.hash = sha256.Sum256(raw)
	} else {
		e.hash = s.hash()
	}
	return e
}

// members reads the members of row 9.
func (s *scanner) members(e *event) {
	m := s.parts
	word := func(name string, rule func([]byte) bool) []byte {
		found := textIf(m.get(name), rule)
		must(found != nil || m.get(name) == nil, "bad-member")
		return found
	}
	e.session = word("session", isName)
	e.kind = word("type", isType)
	e.actor = word("actor", isActor)
	if string(m.get("prev")) != "null" {
		e.prev = word("prev", isHash)
	}
	word("turn", func(t []byte) bool { return consists(t, 1, 64, turnSet) })
	salt := word("salt", func(t []byte) bool { return consists(t, 22, 22, turnSet) && consists(t[21:], 1, 1, "AQgw") })
	var exists bool
	e.time, exists = seconds(word("ts", anyText))
	must(exists, "bad-member")
	e.data = m.get("data")
	if word("data_sha256", isHash) != nil {
		must(e.data == nil && m.get("files") == nil && salt == nil, "bad-member")
		return
	}
	if files := m.get("files"); files != nil {
		e.files = readFiles(files)
	}
	must(len(e.data) > 0 && e.data[0] == '{', "bad-member")
	must(!s.badTag && s.maxFile <= int64(len(e.files)), "bad-member")
}

// hash gives the event hash (format 3) of an event that is not withheld. As members are sorted, those of the body stand
// in its order, and actor stands before data: the place of data_sha256 is that of data.
func (s *scanner) hash() [32]byte {
	s.body, s.header = s.body[:0], s.header[:0]
	at := 0
	for _, one := range s.parts {
		switch string(one.name) {
		case "data":
			at = len(s.header) + len(`,"data_sha256":"`)
			s.header = appendMember(s.header, "data_sha256", quotedZeros)
			s.body = appendMember(s.body, "data", one.value)
		case "files", "salt":
			s.body = appendMember(s.body, string(one.name), one.value)
		default:
			s.header = appendMember(s.header, string(one.name), one.value)
		}
	}
	s.body[0], s.header[0] = '{', '{' // there is no comma before the first one
	body := sha256.Sum256(append(s.body, '}'))
	hex.Encode(s.header[at:], body[:])
	return sha256.Sum256(append(s.header, '}'))
}

const zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

var quotedZeros = []byte(`"` + zeroHash + `"`)

// appendMember adds a member whose name needs no escapes, behind a comma.
func appendMember(object []byte, name string, value []byte) []byte {
	return append(append(append(append(object, `,"`...), name...), `":`...), value...)
}

// readFiles reads the list of side files (format 4).
func readFiles(list []byte) (found []file) {
	entries, _ := split(list, '[')
	must(len(entries) >= 1 && len(entries) <= maxFiles, "bad-member")
	for _, one := range entries {
		entry, _ := split(one.value, '{')
		must(entry.are([]string{"media_type", "sha256", "size"}, "name"), "bad-member")
		size, sum := integer(entry.get("size")), textIf(entry.get("sha256"), isHash)
		must(size >= 0 && sum != nil && textIf(entry.get("media_type"), mediaType.Match) != nil, "bad-member")
		must(entry.get("name") == nil || textIf(entry.get("name"), isFileName) != nil, "bad-member")
		found = append(found, file{size, string(sum)})
	}
	return found
}

const (
	decimal  = "0123456789"
	lower    = "abcdefghijklmnopqrstuvwxyz"
	alnum    = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + decimal
	turnSet  = alnum + "_-"
	actorSet = alnum + "._:@/+-"
)

// consists tells whether text has from least to most bytes, all of them of a set.
func consists(text []byte, least, most int, set string) bool {
	return len(text) >= least && len(text) <= most && len(bytes.TrimLeft(text, set)) == 0
}

func isHash(text []byte) bool { return consists(text, 64, 64, decimal+"abcdef") }

func isActor(text []byte) bool {
	return consists(text, 1, 100, actorSet) && consists(text[:1], 1, 1, alnum)
}

// isType: words of a-z, 0-9 and _, each with a letter first, and a dot between two.
func isType(text []byte) bool {
	dot := true
	for _, c := range text {
		if dot && (c < 'a' || c > 'z') {
			return false
		}
		dot = c == '.'
	}
	return !dot && consists(text, 1, 64, lower+decimal+"_.")
}

var mediaType = regexp.MustCompile(`\A[ -~]{1,127}\z`)

// isName is the rule of session ids and names of branches.
func isName(name []byte) bool { return len(name) <= 200 && isFileName(name) }

// isFileName: IsControl knows U+0000 to U+001F and U+007F to U+009F.
func isFileName(name []byte) bool {
	return len(name) >= 1 && len(name) <= 255 && bytes.IndexFunc(name, unicode.IsControl) < 0
}

// seconds gives the whole Unix seconds of a ts if the moment exists. (Parse alone takes an hour of one digit as well, and
// other fractions.)
func seconds(ts []byte) (int64, bool) {
	const form = "2006-01-02T15:04:05.000Z"
	t, err := time.Parse(form, string(ts))
	good := err == nil && len(ts) == len(form) && ts[13] == ':' && ts[19] == '.' && consists(ts[20:23], 3, 3, decimal)
	return t.Unix(), good && t.Year() >= 1970
}

// line is the state of section 7.
type line struct {
	*report
	trust     *trust
	json      scanner
	seq       int64  // place of the event that is looked at
	id        string // that findings of it have: of its blob; empty in an export
	prev      []byte // hex of the hash before, nil: null
	prevKnown bool
	session   string // empty: none
	epoch     int64
	branch    string
	hashes    []byte // 32 bytes for each place; zeros: lost
	whole     int64  // how many first events are not lost
	declared  map[int64]bool
	tree      merkle
}

func newLine(r *report, t *trust) *line {
	return &line{report: r, trust: t, prevKnown: true, epoch: 1, branch: "main", declared: map[int64]bool{}}
}

// must notes a finding of the event that is looked at, if a rule is broken.
func (l *line) must(holds bool, code string) {
	if !holds {
		l.add(code, l.seq, l.id)
	}
}

// lose notes that the event at seq is not there, or is none, and why; nothing if that has been said.
func (l *line) lose(code string) {
	l.must(code == "", code)
	l.hashes = append(l.hashes, make([]byte, 32)...)
	l.prevKnown = false
}

// hashAt gives the hex of the event hash at a place: empty if there is no such place, or the event is lost.
func (l *line) hashAt(seq int64) string {
	if seq < 1 || seq > int64(len(l.hashes)/32) {
		return ""
	}
	hash := hex.EncodeToString(l.hashes[32*seq-32 : 32*seq])
	if hash == zeroHash {
		return ""
	}
	return hash
}

// step checks the event at l.seq against those before it.
func (l *line) step(e *event) {
	l.must(e.seq == l.seq, "bad-seq")
	l.must(!l.prevKnown || bytes.Equal(e.prev, l.prev), "broken-link")
	l.must(e.epoch >= l.epoch, "bad-epoch")
	l.must(l.session == "" || string(e.session) == l.session || e.is("session.fork"), "bad-session")
	if e.is("session.branch") || e.is("session.fork") {
		l.must(l.fork(e), "bad-fork")
	}
	l.prev, l.prevKnown = hex.AppendEncode(l.prev[:0], e.hash[:]), true
	l.hashes = append(l.hashes, e.hash[:]...)
	l.session, l.epoch = string(e.session), max(l.epoch, e.epoch)
	if l.whole == l.seq-1 {
		l.whole = l.seq
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
	data, _ := split(e.data, '{')
	from, _ := split(data.get("from"), '{')
	seq := integer(from.get("seq"))
	if seq == noInteger {
		return false
	}
	if e.is("session.branch") {
		name := textIf(data.get("branch"), isName)
		if name != nil {
			l.branch = string(name)
		}
		good = name != nil && seq >= 1 && seq < l.seq
	} else {
		session := string(textIf(from.get("session"), anyText))
		good = seq == l.seq-1 && (l.session == "" || session == l.session && string(e.session) != l.session)
		l.branch = "main"
	}
	hash := l.hashAt(seq)
	if hash == "" { // lost: there is nothing to compare it with; outside of the line has been found above
		return good
	}
	if string(textIf(from.get("hash"), isHash)) != hash {
		return false
	}
	l.declared[seq] = true
	return good
}

// seal checks a session.seal and its signatures (section 9). Nothing of it can be checked when an event before is lost.
func (l *line) seal(e *event) {
	if l.whole < l.seq {
		return
	}
	for l.tree.size < l.seq-1 {
		l.tree.add(l.hashes[32*l.tree.size : 32*l.tree.size+32])
	}
	code := attempt(func() {
		s := readSeal(e, l.seq)
		must(s.root == l.tree.root() && s.branch == encode(l.branch), "bad-seal")
		s.check(l.report, l.trust, l.seq, l.id)
	})
	l.must(code == "", code)
}

// end checks what can be said of a whole line only, and takes its head.
func (l *line) end(o *options) {
	l.headHash = l.hashAt(l.headSeq)
	if l.headSeq < o.expectSeq {
		l.add("truncated", l.headSeq, o.expectHead)
	} else if l.hashAt(o.expectSeq) != o.expectHead { // if no head is expected, both are empty
		l.add("rollback", o.expectSeq, o.expectHead)
	}
	if o.requireSigned && l.signedTo == 0 {
		l.add("bad-signature", 0, "")
	}
}

// equivocates looks for the place where two lines of a session go apart; l is the later one.
func (l *line) equivocates(other *line) {
	equal, most := int64(0), min(l.whole, other.whole)
	for equal < most && bytes.Equal(l.hashes[32*equal:32*equal+32], other.hashes[32*equal:32*equal+32]) {
		equal++
	}
	if equal < most && !l.declared[equal] && !other.declared[equal] {
		l.add("equivocation", equal+1, l.hashAt(equal+1))
	}
}

// encode spells a name as a part of a ref (format 7).
func encode(name string) string {
	var out []byte
	for i := 0; i < len(name); i++ {
		c, rest := name[i], name[i+1:]
		odd := c == '.' && (rest == "" || rest[0] == '.' || rest == "lock")
		if !odd && strings.IndexByte(turnSet+".", c) >= 0 && (i > 0 || c != '.' && c != '-') {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}

// isPart tells whether a part of a ref is spelled as encode does it.
func isPart(part string) bool {
	name, err := url.PathUnescape(part)
	return err == nil && len(part) <= 240 && utf8.ValidString(name) && isName([]byte(name)) && encode(name) == part
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
