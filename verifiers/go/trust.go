package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// trust is what the files of --allowed-signers and --revoked-keys say.
type trust struct {
	given   bool
	lines   []*allowed
	revoked map[string]bool
}

// allowed is a line of the allowed signers. It accepts nothing if it has an option that is not known here.
type allowed struct {
	number           int
	principals, key  string
	anywhere, unfit  bool
	with, without    []string // patterns of namespaces; without: those that begin with "!"
	after, before    int64
	hasAfter, hasEnd bool
}

// accepts gives the first line that accepts a signature, or nil.
func (t *trust) accepts(key []byte, namespace string, time int64) *allowed {
	if t.revoked[string(key)] {
		return nil
	}
	for _, line := range t.lines {
		if line.key == string(key) && !line.unfit && line.allows(namespace) && line.after <= time && time < line.before {
			return line
		}
	}
	return nil
}

func (a *allowed) allows(namespace string) bool {
	for _, pattern := range a.without {
		if matches(pattern, namespace) {
			return false
		}
	}
	for _, pattern := range a.with {
		if matches(pattern, namespace) {
			return true
		}
	}
	return a.anywhere
}

// matches knows "*" and "?". Only the last "*" is tried again, so that no pattern takes long.
func matches(pattern, text string) bool {
	at, place, star, starAt := 0, 0, -1, 0
	for at < len(text) {
		switch {
		case place < len(pattern) && pattern[place] == '*':
			star, starAt = place, at
			place++
		case place < len(pattern) && (pattern[place] == '?' || pattern[place] == text[at]):
			at++
			place++
		case star >= 0:
			starAt++
			at, place = starAt, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[place:], "*") == ""
}

// keyLines gives the lines of a file of keys that mean something, by number.
func keyLines(path string, each func(number int, line string) bool) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("%s is not UTF-8", path)
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.Trim(strings.TrimSuffix(line, "\r"), " \t")
		if line != "" && line[0] != '#' && !each(i+1, line) {
			return fmt.Errorf("%s: line %d cannot be read", path, i+1)
		}
	}
	return nil
}

// readTrust reads both files; an empty path is a file that was not given.
func readTrust(signers, revoked string) (t *trust, err error) {
	t = &trust{given: signers != "", revoked: map[string]bool{}}
	if signers != "" {
		err = keyLines(signers, func(number int, line string) bool {
			read := allowedLine(line)
			if read != nil {
				read.number = number
				t.lines = append(t.lines, read)
			}
			return read != nil
		})
	}
	if revoked != "" && err == nil {
		err = keyLines(revoked, func(_ int, line string) bool {
			key, good := readKey(line)
			t.revoked[key] = good
			return good
		})
	}
	return t, err
}

var (
	blanks       = regexp.MustCompile(`[ \t]+`)
	optionsField = regexp.MustCompile(`^((?:"[^"]*"|[^ \t"])+)[ \t]+(.*)$`)
	option       = regexp.MustCompile(`^([^ \t,="]+)(?:="([^"]*)")?(,|$)`)
)

// readKey reads "keytype base64 [comment]". The type must be the one that the key itself names.
func readKey(text string) (key string, good bool) {
	fields := blanks.Split(text, 3)
	if len(fields) < 2 {
		return "", false
	}
	blob, good := unbase64(fields[1])
	w := wire{rest: blob}
	kind := w.next()
	return string(blob), good && !w.bad && string(kind) == fields[0]
}

// allowedLine reads a line of allowed signers; nil if it cannot be read.
func allowedLine(line string) *allowed {
	a := &allowed{anywhere: true, after: math.MinInt64, before: math.MaxInt64}
	fields := blanks.Split(line, 2)
	if len(fields) < 2 {
		return nil
	}
	a.principals = fields[0]
	var good bool
	if a.key, good = readKey(fields[1]); good {
		return a
	}
	cut := optionsField.FindStringSubmatch(fields[1])
	if cut == nil {
		return nil
	}
	if a.key, good = readKey(cut[2]); !good {
		return nil
	}
	for rest, comma := cut[1], ","; comma != ""; {
		one := option.FindStringSubmatch(rest)
		if one == nil || !a.option(strings.ToLower(one[1]), one[2], strings.Contains(one[0], "=")) {
			return nil
		}
		rest, comma = rest[len(one[0]):], one[3]
	}
	return a
}

// option takes one option over; false if it cannot be read.
func (a *allowed) option(name, value string, hasValue bool) (good bool) {
	switch name {
	case "namespaces":
		again := !a.anywhere
		a.anywhere = false
		for _, pattern := range strings.Split(value, ",") {
			if refused, isRefused := strings.CutPrefix(pattern, "!"); isRefused {
				a.without = append(a.without, refused)
			} else {
				a.with = append(a.with, pattern)
			}
		}
		return hasValue && !again
	case "valid-after":
		again := a.hasAfter
		a.hasAfter = true
		a.after, good = readMoment(value)
		return good && !again
	case "valid-before":
		again := a.hasEnd
		a.hasEnd = true
		a.before, good = readMoment(value)
		return good && !again
	}
	a.unfit = true
	return true
}

// readMoment reads YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, all in UTC.
func readMoment(text string) (int64, bool) {
	stamp := strings.TrimSuffix(text, "Z")
	if n := len(stamp); n != 8 && n != 12 && n != 14 || !consists([]byte(stamp), n, n, &decimal) {
		return 0, false
	}
	t, err := time.Parse("20060102150405", stamp+"00000000000000"[len(stamp):])
	return t.Unix(), err == nil && t.Year() >= 1970
}
