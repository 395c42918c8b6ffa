package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

const maxFindings = 1000

// texts are those of section 11.
var texts = map[string]string{
	"bad-commit":     "a commit is not in its form, or says something else than its event",
	"bad-epoch":      "epoch is below 1, or falls",
	"bad-file":       "a side file is not what the event says, or their number differs",
	"bad-fork":       "a start, branch or fork does not stand or come from where it says",
	"bad-hash":       "a commit names another event hash than its event has",
	"bad-json":       "the bytes are not JSON, or break a rule that all JSON here keeps",
	"bad-member":     "a member is missing, unknown, too big or breaks its rule",
	"bad-object":     "an object cannot be read, or its content does not have its id",
	"bad-seal":       "a seal or proof does not agree with the events",
	"bad-seq":        "seq is out of range, or not one more than the event before",
	"bad-session":    "session changes without a fork",
	"bad-signature":  "a signature is wrong, of another namespace or key, or missing",
	"bad-tree":       "a tree is malformed, or a commit is not the one that the events derive",
	"bad-version":    "the version is not 1",
	"broken-link":    "prev is not the hash of the event before",
	"equivocation":   "two lines of a session go apart and neither says so",
	"missing-object": "an object that must be there is not",
	"not-canonical":  "JSON, but not in canonical form",
	"rollback":       "another event stands where the expected head was",
	"truncated":      "the line ends before the expected head, or in the middle of an event",
	"unknown-signer": "a right signature of a key that the allowed signers do not accept",
	"wrong-ref":      "the ref is not one of this line, or holds no commit id",
}

// finding is one fault; seq 0 stands for null.
type finding struct {
	code string
	seq  int64
	id   string
}

// signer is a key of which there were right signatures.
type signer struct {
	accepted   *allowed // the first line of the file that accepted one of them, or nil
	signatures int
}

// report is what the verdict says of one line (section 3).
type report struct {
	name, commit                 string // empty: null
	headSeq                      int64
	headHash                     string // empty: null
	seals, sideFiles, signatures int
	signedTo                     int64
	signers                      map[string]*signer // by fingerprint
	withheld                     [][2]int64
	found                        map[finding]bool
	notChecked, leftOut          int64 // for section 10: signatures of another kind, commits
	keyEnds                      bool  // for section 10: the note about clocks
}

func newReport(name, commit string) *report {
	return &report{name: name, commit: commit, signers: map[string]*signer{}, found: map[finding]bool{}}
}

// add notes a finding, once, up to 1,000.
func (r *report) add(code string, seq int64, id string) {
	if !r.full() {
		r.found[finding{code, seq, id}] = true
	}
}

func (r *report) full() bool { return len(r.found) >= maxFindings }

func (r *report) addWithheld(seq int64) {
	if last := len(r.withheld) - 1; last >= 0 && r.withheld[last][1] == seq-1 {
		r.withheld[last][1] = seq
	} else {
		r.withheld = append(r.withheld, [2]int64{seq, seq})
	}
}

// verdict gives the line of section 3 and the exit status. foreign is the number of refs that are no line.
func verdict(input string, reports []*report, foreign int, o *options) (string, int) {
	var notes []string
	incomplete := false
	note := func(when bool, makesIncomplete bool, text string) {
		if when {
			notes = append(notes, quote(text))
			incomplete = incomplete || makesIncomplete
		}
	}
	var lines []string
	var signatures int
	var notChecked, withheld, leftOut int64
	var broken, full, clock, unsigned bool
	for _, r := range reports {
		lines = append(lines, r.json())
		signatures += r.signatures
		notChecked += r.notChecked
		leftOut += r.leftOut
		for _, span := range r.withheld {
			withheld += span[1] - span[0] + 1
		}
		broken = broken || len(r.found) > 0
		full = full || r.full()
		clock = clock || r.keyEnds
		unsigned = unsigned || r.signedTo < r.headSeq
	}
	// Section 10.
	note(input == "git", false, "events that are not yet in git: the tail of a live journal")
	note(input == "jsonl", false, "commits, trees and refs: an export has none")
	note(input == "proof", false, "all other events: a proof shows what it names")
	note(o.expectSeq == 0, false, "whether newer events were cut off: no head was expected")
	note(signatures == 0, false, "who wrote the events: nothing is signed")
	note(signatures > 0 && !o.trust.given, true, "whose keys signed: no allowed signers were given")
	note(notChecked > 0, true, fmt.Sprintf("signatures of a kind that is not checked here: %d", notChecked))
	note(clock, false, "when it was signed: an accepted key has an end, and the time is the signer's word")
	note(o.trust.given && unsigned, false, "events after the last accepted signature")
	note(withheld > 0, false, fmt.Sprintf("the payloads of withheld events: %d", withheld))
	note(leftOut > 0, true, fmt.Sprintf("commits that a shallow history leaves out: %d", leftOut))
	note(foreign > 0, false, fmt.Sprintf("refs that are no line of a journal: %d", foreign))
	note(full, true, "what comes after 1000 findings in a line")
	word, status := "ok", 0
	if broken {
		word, status = "broken", 1
	} else if incomplete {
		word, status = "incomplete", 3
	}
	return fmt.Sprintf(`{"input":"%s","lines":[%s],"unchecked":[%s],"verdict":"%s","version":1}`+"\n",
		input, strings.Join(lines, ","), strings.Join(notes, ","), word), status
}

// json gives one line of the verdict, members sorted.
func (r *report) json() string {
	sorted := make([]finding, 0, len(r.found))
	for one := range r.found {
		sorted = append(sorted, one)
	}
	sort.Slice(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		if a.seq != b.seq {
			return a.seq < b.seq
		}
		if a.code != b.code {
			return a.code < b.code
		}
		return a.id < b.id
	})
	var findings, signers, withheld []string
	for _, one := range sorted {
		seq := "null"
		if one.seq != 0 {
			seq = strconv.FormatInt(one.seq, 10)
		}
		findings = append(findings, fmt.Sprintf(`{"code":"%s","id":"%s","seq":%s,"text":"%s"}`, one.code, one.id, seq, texts[one.code]))
	}
	var keys []string
	for key := range r.signers {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		principals := "null"
		if line := r.signers[key].accepted; line != nil {
			principals = quote(line.principals)
		}
		signers = append(signers, fmt.Sprintf(`{"key":"%s","principals":%s,"signatures":%d}`, key, principals, r.signers[key].signatures))
	}
	for _, span := range r.withheld {
		withheld = append(withheld, fmt.Sprintf("[%d,%d]", span[0], span[1]))
	}
	return fmt.Sprintf(`{"findings":[%s],"head":{"commit":%s,"hash":%s,"seq":%d},"name":%s,"seals":%d,"side_files":%d,`+
		`"signatures":%d,"signed_to":%d,"signers":[%s],"withheld":[%s]}`, strings.Join(findings, ","), orNull(r.commit),
		orNull(r.headHash), r.headSeq, orNull(r.name), r.seals, r.sideFiles, r.signatures, r.signedTo,
		strings.Join(signers, ","), strings.Join(withheld, ","))
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return quote(text)
}

// quote gives a JSON string in canonical form.
func quote(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out.WriteString(`\` + string(rune(c)))
		case c >= 0x20:
			out.WriteByte(c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out.WriteString(`\` + "btnfr"[strings.IndexByte("\b\t\n\f\r", c):][:1])
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return `"` + out.String() + `"`
}
