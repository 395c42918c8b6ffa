package main

import (
	"bytes"
	"encoding/json"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxLevels = 64

// member is a member of an object, or (without a name) an element of an array. Values stay text.
type member struct{ name, value []byte }

// scanner reads one JSON text over its bytes (docs/verification.md section 6, rows 2 and 3). It goes through the whole
// text even after something that is not canonical: bad-json, wherever it stands, comes first.
type scanner struct {
	raw       []byte
	at        int
	canonical bool
	badTag    bool     // a name that begins with $gj: and is no tag; counts in canonical text only
	maxFile   int64    // the highest side file that a tag names
	names     [][]byte // names of the objects that are open here
	parts     []member // what the outermost object or array holds
}

// scan gives "", "bad-json" or "not-canonical".
func (s *scanner) scan(raw []byte) string {
	*s = scanner{raw: raw, canonical: true, names: s.names[:0], parts: s.parts[:0]}
	// Valid refuses overlong forms, surrogates and what lies above U+10FFFF. A byte order mark begins no value.
	if !utf8.Valid(raw) {
		return "bad-json"
	}
	s.space()
	if !s.value(1) {
		return "bad-json"
	}
	s.space()
	if s.at != len(raw) {
		return "bad-json"
	}
	if !s.canonical {
		return "not-canonical"
	}
	return ""
}

// peek gives the next byte. At the end it is a NUL, which is allowed nowhere either.
func (s *scanner) peek() byte {
	if s.at == len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

func (s *scanner) take(c byte) bool {
	if s.at == len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) word(word string) bool {
	found := bytes.HasPrefix(s.raw[s.at:], []byte(word))
	if found {
		s.at += len(word)
	}
	return found
}

func (s *scanner) space() {
	for s.take(' ') || s.take('\n') || s.take('\t') || s.take('\r') {
		s.canonical = false
	}
}

func (s *scanner) value(level int) bool {
	switch s.peek() {
	case '{':
		return level <= maxLevels && s.container(level, '}')
	case '[':
		return level <= maxLevels && s.container(level, ']')
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// container reads an object or an array, up to its closing byte.
func (s *scanner) container(level int, end byte) bool {
	s.at++
	first, ascending, tagged := len(s.names), true, false
	s.space()
	for more := !s.take(end); more; {
		s.space()
		var name []byte
		if end == '}' {
			start := s.at
			if !s.text() {
				return false
			}
			name = text(s.raw[start:s.at])
			ascending = ascending && (len(s.names) == first || less(s.names[len(s.names)-1], name))
			s.names = append(s.names, name)
			s.space()
			if !s.take(':') {
				return false
			}
			s.space()
		}
		start := s.at
		if !s.value(level + 1) {
			return false
		}
		if level == 1 {
			s.parts = append(s.parts, member{name, s.raw[start:s.at]})
		}
		if bytes.HasPrefix(name, []byte("$gj:")) {
			tagged = true
			s.tag(string(name), s.raw[start:s.at])
		}
		s.space()
		if more = s.take(','); !more && !s.take(end) {
			return false
		}
	}
	names := s.names[first:]
	s.names = s.names[:first]
	s.badTag = s.badTag || tagged && len(names) != 1
	if !ascending {
		s.canonical = false
		return !repeated(names)
	}
	return true
}

// tag judges a member whose name begins with $gj: (section 6, "Tags"), in canonical text.
func (s *scanner) tag(name string, value []byte) {
	number, good := value, true
	switch name {
	case "$gj:json", "$gj:b64":
		s.badTag = s.badTag || !isText(value)
		return
	case "$gj:ref": // [k,"/pointer"]
		head, tail, _ := bytes.Cut(value, []byte(","))
		pointer := scanner{raw: tail}
		good = head[0] == '[' && pointer.text() && string(tail[pointer.at:]) == "]" && (tail[1] == '/' || tail[1] == '"')
		number = head[1:]
	default:
		good = name == "$gj:file"
	}
	k, whole := integer(number)
	s.badTag = s.badTag || !good || !whole || k < 1
	if k > s.maxFile {
		s.maxFile = k
	}
}

// plain tells the bytes that stand for themselves in a string.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return
}()

func (s *scanner) text() bool {
	if !s.take('"') {
		return false
	}
	for {
		for s.at < len(s.raw) && plain[s.raw[s.at]] {
			s.at++
		}
		switch s.peek() {
		case '"':
			s.at++
			return true
		case '\\':
			if !s.escape() {
				return false
			}
		default: // a control character, or the end
			return false
		}
	}
}

func (s *scanner) escape() bool {
	s.at++
	switch c := s.peek(); c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't', '/':
		s.at++
		s.canonical = s.canonical && c != '/'
		return true
	}
	unit, ok := s.unit()
	if !ok || unit >= 0xDC00 && unit < 0xE000 {
		return false // a low surrogate alone
	}
	if unit >= 0xD800 && unit < 0xDC00 {
		s.canonical = false
		low, ok := uint64(0), s.take('\\')
		if ok {
			low, ok = s.unit()
		}
		return ok && low >= 0xDC00 && low < 0xE000
	}
	// RFC 8785 has \u only for control characters without a short form, in lower case.
	last := s.raw[s.at-1]
	if unit >= 0x20 || strings.IndexByte("\b\t\n\f\r", byte(unit)) >= 0 || last >= 'A' && last <= 'F' {
		s.canonical = false
	}
	return true
}

// unit reads "u" and four hex digits.
func (s *scanner) unit() (uint64, bool) {
	if !s.take('u') || len(s.raw)-s.at < 4 {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s.raw[s.at:s.at+4]), 16, 16)
	s.at += 4
	return unit, err == nil
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.raw) && s.raw[s.at] >= '0' && s.raw[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

func (s *scanner) number() bool {
	start, whole := s.at, true
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') {
		whole = false
		if !s.digits() {
			return false
		}
	}
	if s.take('e') || s.take('E') {
		whole = false
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return false
		}
	}
	number := s.raw[start:s.at]
	if whole && len(number) <= 15 { // below 2^53, and printed as it is
		return len(number) != 2 || number[0] != '-' || number[1] != '0'
	}
	x := double(string(number))
	if !(math.Abs(x) < 1<<53) || x == 0 && math.Signbit(x) {
		return false
	}
	s.canonical = s.canonical && printed(x) == string(number)
	return true
}

// double gives the double next to a number of JSON, an infinity if it is too big.
func double(number string) float64 {
	if len(number) > 1000 {
		// ParseFloat takes exponents of more than five digits for 10,000 and more: right, but behind thousands of zeros.
		// So the point is moved before the first digit that is not 0.
		mantissa, exponent := number, 0
		if e := strings.IndexAny(number, "eE"); e >= 0 {
			mantissa = number[:e]
			exponent, _ = strconv.Atoi(number[e+1:]) // out of range: the highest or lowest int
			exponent = int(math.Max(-1e9, math.Min(1e9, float64(exponent))))
		}
		digits := strings.TrimPrefix(mantissa, "-")
		sign := mantissa[:len(mantissa)-len(digits)]
		whole, fraction, _ := strings.Cut(digits, ".")
		digits = strings.TrimLeft(whole+fraction, "0")
		exponent += len(digits) - len(fraction)
		number = sign + "0." + digits + "0e" + strconv.Itoa(exponent)
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
	if i == len(a) || i == len(b) {
		return len(a) < len(b)
	}
	if a[i] >= 0xEE && b[i] >= 0xEE && (a[i] >= 0xF0) != (b[i] >= 0xF0) {
		return a[i] >= 0xF0
	}
	return a[i] < b[i]
}

// repeated sorts names and tells whether one is there twice.
func repeated(names [][]byte) bool {
	sort.Slice(names, func(i, j int) bool { return bytes.Compare(names[i], names[j]) < 0 })
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return true
		}
	}
	return false
}

// What follows reads values of text that a scanner has found right. integer reads the one spelling of canonical text.

func isText(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// text gives the string that a JSON string stands for.
func text(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	var decoded string
	if json.Unmarshal(value, &decoded) != nil {
		return nil // a lone surrogate or another wrong escape: the scanner has refused it
	}
	return []byte(decoded)
}

func integer(value []byte) (int64, bool) {
	whole, err := strconv.ParseInt(string(value), 10, 64)
	return whole, err == nil
}

// split gives the members of an object or the elements of an array; none of another value.
func split(value []byte) []member {
	var s scanner
	s.scan(value)
	return s.parts
}

// get gives the value of a member, nil if it is not there.
func get(members []member, name string) []byte {
	for _, one := range members {
		if string(one.name) == name {
			return one.value
		}
	}
	return nil
}
