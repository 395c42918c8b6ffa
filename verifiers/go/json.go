package main

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxLevels = 64

// broken is the code of a rule that is broken, or says that something cannot be read. It ends by a panic what attempt
// runs: so each rule is a line of its own.
type broken string

func must(holds bool, code broken) {
	if !holds {
		panic(code)
	}
}

// sure ends in the same way what must not fail.
func sure(err error) {
	if err != nil {
		panic(broken(err.Error()))
	}
}

// attempt gives the code of the first rule that work found broken, or none.
func attempt(work func()) (code string) {
	defer func() {
		if found := recover(); found != nil {
			code = string(found.(broken))
		}
	}()
	work()
	return ""
}

// member is a member of an object, or (without a name) an element of an array. Values stay text.
type member struct{ name, value []byte }

type members []member

// scanner reads one JSON text over its bytes (section 6, rows 2 and 3). It goes through the whole text even after
// something that is not canonical: bad-json, wherever it stands, comes first.
type scanner struct {
	raw       []byte
	at        int
	canonical bool
	badTag    bool     // a name that begins with $gj: and is no tag; counts in canonical text only
	maxFile   int64    // the highest side file that a tag names
	names     [][]byte // names of the objects that are open here
	parts     members  // what the outermost object or array holds
	marks     int      // how many more of the bytes , [ { may stand outside of strings
	body      []byte   // for the hash of an event, as header; what was allocated is used again
	header    []byte
}

// scan must find canonical JSON, with no more of the bytes , [ { than marks.
func (s *scanner) scan(raw []byte, marks int) {
	s.raw, s.at, s.marks, s.canonical, s.badTag, s.maxFile = raw, 0, marks, true, false, 0
	s.names, s.parts = s.names[:0], s.parts[:0]
	// Valid refuses overlong forms, surrogates and what lies above U+10FFFF. A byte order mark begins no value.
	must(utf8.Valid(raw), "bad-json")
	s.space()
	s.value(1)
	s.space()
	must(s.at == len(raw) && s.marks >= 0, "bad-json")
	must(s.canonical, "not-canonical")
}

// peek gives the next byte. At the end it is a NUL, which is allowed nowhere either.
func (s *scanner) peek() byte {
	if s.at == len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

// take goes past a byte if it is the next one.
func (s *scanner) take(c byte) bool {
	found := s.peek() == c
	if found {
		s.at++
	}
	return found
}

func (s *scanner) need(word string) {
	must(bytes.HasPrefix(s.raw[s.at:], []byte(word)), "bad-json")
	s.at += len(word)
}

func (s *scanner) space() {
	for s.take(' ') || s.take('\n') || s.take('\t') || s.take('\r') {
		s.canonical = false
	}
}

// value goes past a value and gives its bytes.
func (s *scanner) value(level int) []byte {
	start := s.at
	switch s.peek() {
	case '{':
		s.container(level, '}')
	case '[':
		s.container(level, ']')
	case '"':
		s.text()
	case 't':
		s.need("true")
	case 'f':
		s.need("false")
	case 'n':
		s.need("null")
	default:
		s.number()
	}
	return s.raw[start:s.at]
}

// container reads an object or an array, up to its closing byte.
func (s *scanner) container(level int, end byte) {
	must(level <= maxLevels, "bad-json")
	s.at++
	s.marks--
	first, ascending, tagged := len(s.names), true, false
	s.space()
	for more := !s.take(end); more; {
		must(s.marks >= 0, "bad-json")
		var name []byte
		s.space()
		if end == '}' {
			name = text(s.text())
			ascending = ascending && (len(s.names) == first || less(s.names[len(s.names)-1], name))
			s.names = append(s.names, name)
			s.space()
			must(s.take(':'), "bad-json")
			s.space()
		}
		value := s.value(level + 1)
		if level == 1 {
			s.parts = append(s.parts, member{name, value})
		}
		if bytes.HasPrefix(name, []byte("$gj:")) {
			tagged = true
			s.tag(string(name), value)
		}
		s.space()
		if more = s.take(','); more {
			s.marks--
		} else {
			must(s.take(end), "bad-json")
		}
	}
	names := s.names[first:]
	s.names = s.names[:first]
	s.badTag = s.badTag || tagged && len(names) != 1
	if !ascending {
		s.canonical = false
		must(!repeated(names), "bad-json")
	}
}

// refForm is [k,"/pointer"] in canonical text.
var refForm = regexp.MustCompile(`(?s)\A\[([0-9]+),"(?:/(?:[^"\\]|\\.)*)?"\]\z`)

// tag judges a member whose name begins with $gj: (section 6, "Tags"), in canonical text.
func (s *scanner) tag(name string, value []byte) {
	if name == "$gj:json" || name == "$gj:b64" {
		s.badTag = s.badTag || !isText(value)
		return
	}
	if ref := refForm.FindSubmatch(value); name == "$gj:ref" && ref != nil {
		value = ref[1]
	} else if name != "$gj:file" {
		s.badTag = true
	}
	k := integer(value)
	s.badTag = s.badTag || k < 1
	s.maxFile = max(s.maxFile, k)
}

// text goes past a string and gives its bytes.
func (s *scanner) text() []byte {
	start := s.at
	must(s.take('"'), "bad-json")
	for !s.take('"') {
		at := s.at
		for at < len(s.raw) && s.raw[at] >= 0x20 && s.raw[at] != '"' && s.raw[at] != '\\' {
			at++
		}
		s.at = at
		if c := s.peek(); c == '\\' {
			s.escape()
		} else {
			must(c == '"', "bad-json") // no control character, and not the end
		}
	}
	return s.raw[start:s.at]
}

func (s *scanner) escape() {
	s.at++
	if c := s.peek(); strings.IndexByte(`"\bfnrt/`, c) >= 0 {
		s.at++
		s.canonical = s.canonical && c != '/'
		return
	}
	unit := s.unit()
	must(unit < 0xDC00 || unit >= 0xE000, "bad-json") // a low surrogate alone
	if unit >= 0xD800 && unit < 0xDC00 {
		s.need(`\`)
		low := s.unit()
		must(low >= 0xDC00 && low < 0xE000, "bad-json")
	}
	// RFC 8785 has \u only for control characters without a short form, in lower case.
	last := s.raw[s.at-1]
	if unit >= 0x20 || strings.IndexByte("\b\t\n\f\r", byte(unit)) >= 0 || last >= 'A' && last <= 'F' {
		s.canonical = false
	}
}

// unit reads "u" and four hex digits.
func (s *scanner) unit() uint64 {
	s.need("u")
	must(len(s.raw)-s.at >= 4, "bad-json")
	unit, err := strconv.ParseUint(string(s.raw[s.at:s.at+4]), 16, 16)
	must(err == nil, "bad-json")
	s.at += 4
	return unit
}

func (s *scanner) digits() {
	rest := bytes.TrimLeft(s.raw[s.at:], decimal)
	must(len(rest) < len(s.raw)-s.at, "bad-json")
	s.at = len(s.raw) - len(rest)
}

func (s *scanner) number() {
	start := s.at
	s.take('-')
	if !s.take('0') {
		s.digits()
	}
	whole := s.at
	if s.take('.') {
		s.digits()
	}
	if s.take('e') || s.take('E') {
		_ = s.take('+') || s.take('-')
		s.digits()
	}
	number := string(s.raw[start:s.at])
	if whole == s.at && len(number) <= 15 { // below 2^53, and printed as it is
		must(number != "-0", "bad-json")
		return
	}
	x := double(number)
	must(math.Abs(x) < 1<<53 && (x != 0 || !math.Signbit(x)), "bad-json")
	s.canonical = s.canonical && printed(x) == number
}

var longNumber = regexp.MustCompile(`\A(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?\z`)

// double gives the double next to a number of JSON, an infinity if it is too big.
func double(number string) float64 {
	if len(number) > 1000 {
		// ParseFloat takes exponents of more than five digits for 10,000 and more: right, but behind thousands of zeros.
		// So the point is moved before the first digit that is not 0.
		m := longNumber.FindStringSubmatch(number)
		exponent, _ := strconv.Atoi(m[4]) // out of range: the highest or lowest int
		digits := strings.TrimLeft(m[2]+m[3], "0")
		exponent = max(-1e9, min(1e9, exponent)) + len(digits) - len(m[3])
		number = m[1] + "0." + digits + "0e" + strconv.Itoa(exponent)
	}
	x, _ := strconv.ParseFloat(number, 64)
	return x
}

// printed gives a number below 2^53 as ECMAScript prints it.
func printed(x float64) string {
	if math.Abs(x) >= 1e-6 || x == 0 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strings.Replace(strconv.FormatFloat(x, 'e', -1, 64), "e-0", "e-", 1)
}

// less compares names by their UTF-16 units, over UTF-8. The orders differ in one thing: what is above U+FFFF (first
// byte F0 or more) is written with surrogates, which sort before U+E000 to U+FFFF (first byte EE or EF).
func less(a, b []byte) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i < len(a) && i < len(b) && min(a[i], b[i]) >= 0xEE && (a[i] >= 0xF0) != (b[i] >= 0xF0) {
		return a[i] >= 0xF0
	}
	return bytes.Compare(a[i:], b[i:]) < 0
}

// repeated sorts names and tells whether one is there twice.
func repeated(names [][]byte) bool {
	slices.SortFunc(names, bytes.Compare)
	return len(slices.CompactFunc(names, bytes.Equal)) < len(names)
}

// What follows reads values of text that a scanner has found right.

func isText(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// text gives the string that a JSON string stands for.
func text(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	var decoded string
	json.Unmarshal(value, &decoded)
	return []byte(decoded)
}

// textIf gives the text of a JSON string that keeps a rule; nil of another value, or none.
func textIf(value []byte, rule func([]byte) bool) []byte {
	if isText(value) {
		if decoded := text(value); rule(decoded) {
			return decoded
		}
	}
	return nil
}

func anyText([]byte) bool { return true }

// noInteger is below all numbers that are allowed.
const noInteger = math.MinInt64

// integer reads the one spelling of canonical text.
func integer(value []byte) int64 {
	whole, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return noInteger
	}
	return whole
}

// split gives what an object or an array holds, as begin says; good is false for another value.
func split(value []byte, begin byte) (parts members, good bool) {
	if len(value) == 0 || value[0] != begin {
		return nil, false
	}
	var s scanner
	s.scan(value, len(value))
	return s.parts, true
}

// get gives the value of a member, nil if it is not there.
func (m members) get(name string) []byte {
	for _, one := range m {
		if string(one.name) == name {
			return one.value
		}
	}
	return nil
}

// are tells whether all the required members are there, and no others than these and the optional ones.
func (m members) are(required []string, optional ...string) bool {
	found := 0
	for _, one := range m {
		if slices.Contains(required, string(one.name)) {
			found++
		} else if !slices.Contains(optional, string(one.name)) {
			return false
		}
	}
	return found == len(required)
}
