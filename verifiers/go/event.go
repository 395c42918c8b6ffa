package main

import (
	"crypto/sha256"
	"time"
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

// The members of an event, in canonical order.
var memberNames = [...]string{
	"actor", "data", "data_sha256", "epoch", "files", "prev", "salt", "seq", "session", "ts", "turn", "type", "v",
}

const mActor, mData, mDigest, mEpoch, mFiles, mPrev, mSalt, mSeq, mSession, mTs, mTurn, mType = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

// reader reads events one after the other; what it has allocated is used again.
type reader struct {
	json scanner
	text []byte
}

// event gives the first code of section 6 whose rule is broken, or none. (Sections are those of docs/verification.md,
// "format" ones of docs/format.md.)
func (r *reader) event(raw []byte) (e event, code string) {
	if len(raw) > maxEvent {
		return e, "bad-member"
	}
	if code := r.json.scan(raw); code != "" {
		return e, code
	}
	if raw[0] != '{' {
		return e, "bad-json"
	}
	if string(get(r.json.parts, "v")) != "1" {
		return e, "bad-version"
	}
	// As both lists are sorted, one pass finds all members, and stops at one that is not known.
	var m [len(memberNames)][]byte
	at := 0
	for _, one := range r.json.parts {
		for at < len(m) && memberNames[at] != string(one.name) {
			at++
		}
		if at == len(m) {
			return e, "bad-member"
		}
		m[at] = one.value
	}
	for _, required := range [...]int{mSession, mSeq, mPrev, mEpoch, mTs, mType, mActor} {
		if m[required] == nil {
			return e, "bad-member"
		}
	}
	var whole bool
	if e.seq, whole = integer(m[mSeq]); !whole || e.seq < 1 || e.seq > maxSeq {
		return e, "bad-seq"
	}
	if e.epoch, whole = integer(m[mEpoch]); !whole || e.epoch < 1 {
		return e, "bad-epoch"
	}
	if !r.members(&e, &m) {
		return e, "bad-member"
	}
	if (e.prev == nil) != (e.seq == 1) {
		return e, "broken-link"
	}
	withheld := e.data == nil
	switch {
	case withheld && (e.is("session.branch") || e.is("session.fork")):
		return e, "bad-fork"
	case withheld && e.is("session.seal"):
		return e, "bad-seal"
	case e.is("session.start") != (e.seq == 1):
		return e, "bad-fork"
	}
	e.hash = r.hash(raw, withheld)
	return e, ""
}

// members reads the members of row 9 and tells whether all keep their rules.
func (r *reader) members(e *event, m *[len(memberNames)][]byte) (good bool) {
	good = true
	word := func(member int, rule func([]byte) bool) []byte {
		if m[member] == nil {
			return nil
		}
		decoded, keeps := textIf(m[member], rule)
		good = good && keeps
		return decoded
	}
	e.session = word(mSession, isName)
	e.kind = word(mType, isType)
	e.actor = word(mActor, isActor)
	if string(m[mPrev]) != "null" {
		e.prev = word(mPrev, isHash)
	}
	word(mTurn, func(s []byte) bool { return consists(s, 1, 64, &turnSet) })
	word(mSalt, func(s []byte) bool { return consists(s, 22, 22, &turnSet) && saltEnd[s[21]] })
	word(mTs, func(s []byte) bool {
		var exists bool
		e.time, exists = seconds(s)
		return exists
	})
	if m[mDigest] != nil {
		word(mDigest, isHash)
		return good && m[mData] == nil && m[mFiles] == nil && m[mSalt] == nil
	}
	if m[mFiles] != nil {
		var right bool
		e.files, right = readFiles(m[mFiles])
		good = good && right
	}
	e.data = m[mData]
	tags := !r.json.badTag && r.json.maxFile <= int64(len(e.files))
	return good && len(e.data) > 0 && e.data[0] == '{' && tags
}

// hash gives the event hash (format 3). As members are sorted, those of the body stand in its order.
func (r *reader) hash(raw []byte, withheld bool) [32]byte {
	if withheld {
		return sha256.Sum256(raw)
	}
	text := r.text[:0]
	for _, one := range r.json.parts {
		if inBody(one) {
			text = appendMember(text, one)
		}
	}
	body := sha256.Sum256(append(text, '}'))
	header := text[:0]
	for _, one := range r.json.parts {
		if string(one.name) == "data" {
			text := append(appendHex([]byte{'"'}, body[:]), '"')
			header = appendMember(header, member{[]byte("data_sha256"), text})
		} else if !inBody(one) {
			header = appendMember(header, one)
		}
	}
	r.text = append(header, '}')
	return sha256.Sum256(r.text)
}

func inBody(one member) bool {
	name := string(one.name)
	return name == "data" || name == "files" || name == "salt"
}

// appendMember adds a member whose name needs no escapes to an object that is not closed.
func appendMember(object []byte, one member) []byte {
	if len(object) == 0 {
		object = append(object, '{', '"')
	} else {
		object = append(object, ',', '"')
	}
	object = append(object, one.name...)
	object = append(object, '"', ':')
	return append(object, one.value...)
}

// readFiles reads the list of side files (format 4).
func readFiles(list []byte) (found []file, good bool) {
	parts := split(list)
	if list[0] != '[' || len(parts) < 1 || len(parts) > maxFiles {
		return nil, false
	}
	for _, part := range parts {
		entry := split(part.value)
		size, whole := integer(get(entry, "size"))
		sum, isSum := textIf(get(entry, "sha256"), isHash)
		_, isMedia := textIf(get(entry, "media_type"), isMediaType)
		names := 3
		if name := get(entry, "name"); name != nil {
			names = 4
			_, isFileName := textIf(name, func(s []byte) bool { return isNameOf(s, 255) })
			whole = whole && isFileName
		}
		if part.value[0] != '{' || len(entry) != names || !whole || size < 0 || !isSum || !isMedia {
			return nil, false
		}
		found = append(found, file{size, string(sum)})
	}
	return found, true
}

// textIf gives the text of a JSON string and whether it keeps a rule; false for another value, or none.
func textIf(value []byte, rule func([]byte) bool) ([]byte, bool) {
	if !isText(value) {
		return nil, false
	}
	decoded := text(value)
	return decoded, rule(decoded)
}

// set is a set of bytes.
type set [256]bool

func setOf(members string) (s set) {
	for i := 0; i < len(members); i++ {
		s[members[i]] = true
	}
	return s
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	alnum  = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits
)

var (
	decimal   = setOf(digits)
	hexSet    = setOf(digits + "abcdef")
	turnSet   = setOf(alnum + "_-")
	saltEnd   = setOf("AQgw")
	actorHead = setOf(alnum)
	actorSet  = setOf(alnum + "._:@/+-")
	typeHead  = setOf(lower)
	typeSet   = setOf(lower + digits + "_.")
	printable = func() (s set) {
		for c := ' '; c <= '~'; c++ {
			s[c] = true
		}
		return s
	}()
)

// consists tells whether text has from least to most bytes, all of them of a set.
func consists(text []byte, least, most int, of *set) bool {
	for _, c := range text {
		if !of[c] {
			return false
		}
	}
	return len(text) >= least && len(text) <= most
}

func isHash(text []byte) bool { return consists(text, 64, 64, &hexSet) }

func isActor(text []byte) bool { return consists(text, 1, 100, &actorSet) && actorHead[text[0]] }

func isMediaType(text []byte) bool { return consists(text, 1, 127, &printable) }

// isType: words of a-z, 0-9 and _, each with a letter first, and a dot between two.
func isType(text []byte) bool {
	dot := true
	for _, c := range text {
		if dot && !typeHead[c] {
			return false
		}
		dot = c == '.'
	}
	return !dot && consists(text, 1, 64, &typeSet)
}

// isName is the rule of session ids and names of branches.
func isName(name []byte) bool { return isNameOf(name, 200) }

func isNameOf(name []byte, most int) bool {
	for i, c := range name {
		// U+0080 to U+009F are C2 80 to C2 9F.
		if c < 0x20 || c == 0x7F || c == 0xC2 && name[i+1] < 0xA0 {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= most
}

// seconds gives the whole Unix seconds of a ts if the moment exists. (Parse alone takes other forms as well.)
func seconds(ts []byte) (int64, bool) {
	const form = "0000-00-00T00:00:00.000Z"
	if len(ts) != len(form) {
		return 0, false
	}
	for i := range form {
		if form[i] == '0' && !decimal[ts[i]] || form[i] != '0' && form[i] != ts[i] {
			return 0, false
		}
	}
	t, err := time.Parse("2006-01-02T15:04:05.000Z", string(ts))
	return t.Unix(), err == nil && t.Year() >= 1970
}
