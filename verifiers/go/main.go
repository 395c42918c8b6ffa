// Command verify-chain verifies a gitjournal repository, export or proof and prints a verdict.
//
// It follows docs/verification.md ("section N" in the comments of this program) and docs/format.md ("format N"), with
// the standard library alone. In this order it is read best:
//
//	main.go     the arguments, the input, the verdict (sections 2, 3, 10, 11)
//	json.go     how a broken rule is told (must, attempt); strict canonical JSON
//	event.go    one event; the rules between the events of a line; names; Merkle trees (sections 6, 7)
//	sign.go     signatures and allowed signers (section 9)
//	proof.go    seals, exports, proofs (sections 9, 11)
//	repo.go     refs; commits and trees, and how they follow from the events; a line in git (sections 5, 8)
//	objects.go  objects of a repository, each hashed here before it counts (section 4); how other files are read
//	pack.go     only fetches bytes, faster than git does
//
// All but pack.go decide. What pack.go finds counts when it hashes to the id that was asked for (look, in objects.go); for
// all else git is asked. So a fault in it can make a verdict late or bad, but not good.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// What begins so ends the program with status 2.
const usage = `usage: verify-chain [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed]
                    [--expect-seq N --expect-head HASH] PATH [NAME]
`

type options struct {
	trust         *trust
	requireSigned bool
	expectSeq     int64 // 0: no head is expected
	expectHead    string
	path, name    string
	hasName       bool
}

func main() {
	debug.SetGCPercent(200) // what lives long is small
	text, status, problem := verify(os.Args[1:])
	io.WriteString(os.Stdout, text)
	if problem != "" {
		fmt.Fprintln(os.Stderr, problem)
	}
	os.Exit(status)
}

// verify gives what is printed, the exit status, and why there is no verdict.
func verify(args []string) (text string, status int, problem string) {
	var o *options
	if problem = attempt(func() { o = readOptions(args) }); problem != "" {
		return "", 2, problem
	}
	problem = attempt(func() { text, status = check(o) })
	if strings.HasPrefix(problem, "usage") {
		return "", 2, problem
	} else if problem != "" {
		return "", 4, problem
	}
	return text, status, ""
}

// check gives the verdict and its exit status.
func check(o *options) (text string, status int) {
	info, err := os.Stat(o.path)
	sure(err)
	if info.IsDir() {
		reports, foreign := checkRepository(o)
		return verdict("git", reports, foreign, o)
	}
	must(!o.hasName, "usage: a file has no NAME")
	isExport, isProof := strings.HasSuffix(o.path, ".jsonl"), strings.HasSuffix(o.path, ".json")
	must(isExport || isProof, "neither a folder nor *.jsonl nor *.json")
	must(isExport || o.expectSeq == 0, "usage: a proof has no expected head")
	must(info.Mode().IsRegular(), "no regular file")
	in, err := os.Open(o.path)
	sure(err)
	defer in.Close()
	if isExport {
		return verdict("jsonl", []*report{checkExport(in, o)}, 0, o)
	}
	return verdict("proof", []*report{checkProof(in, o)}, 0, o)
}

// readOptions reads the arguments, and the files of keys.
func readOptions(args []string) *options {
	o := &options{}
	values := map[string]string{"--allowed-signers": "", "--revoked-keys": "", "--expect-seq": "", "--expect-head": ""}
	var positional []string
	for i := 0; i < len(args); i++ {
		if _, takesValue := values[args[i]]; takesValue && i+1 < len(args) && args[i+1] != "" {
			values[args[i]] = args[i+1]
			i++
		} else if args[i] == "--require-signed" {
			o.requireSigned = true
		} else {
			must(!strings.HasPrefix(args[i], "-"), usage)
			positional = append(positional, args[i])
		}
	}
	must(len(positional) == 1 || len(positional) == 2, usage)
	o.path, o.hasName = positional[0], len(positional) == 2
	if o.hasName {
		o.name = positional[1]
	}
	if seq, head := values["--expect-seq"], values["--expect-head"]; seq != "" || head != "" {
		must(consists([]byte(seq), 1, 8, decimal) && seq[0] != '0' && isHash([]byte(head)), usage)
		o.expectSeq, _ = strconv.ParseInt(seq, 10, 64)
		o.expectHead = head
	}
	o.trust = readTrust(values["--allowed-signers"], values["--revoked-keys"])
	return o
}

// checkRepository gives a report for each line, and the number of refs that are no line.
func checkRepository(o *options) (reports []*report, foreign int) {
	dir := o.path
	if !isRepository(dir) {
		dir = filepath.Join(dir, ".git")
		must(isRepository(dir), "no repository")
	}
	found, err := os.Stat(filepath.Join(dir, "reftable"))
	must(err != nil || !found.IsDir(), "refs in the reftable format cannot be read")
	refs, foreign := readRefs(dir)
	refs = slices.DeleteFunc(refs, func(one ref) bool {
		return o.hasName && one.session+"/"+one.branch != o.name && (one.session != o.name || one.branch != "main")
	})
	must(len(refs) > 0, "no such line")
	must(o.expectSeq == 0 || o.hasName && len(refs) == 1, "usage: an expected head needs exactly one line")
	objects := openObjects(dir)
	defer objects.close()
	sessions := map[string][]*line{}
	for _, one := range refs {
		l := checkLine(objects, one, o)
		reports = append(reports, l.report)
		// Only lines that stand under the name of their session are compared (section 7).
		if l.session != "" && encode(l.session) == one.session {
			for _, other := range sessions[l.session] {
				l.equivocates(other)
			}
			sessions[l.session] = append(sessions[l.session], l)
		}
	}
	return reports, foreign
}

func isRepository(dir string) bool {
	head, err1 := os.Stat(filepath.Join(dir, "HEAD"))
	objects, err2 := os.Stat(filepath.Join(dir, "objects"))
	return err1 == nil && err2 == nil && head.Mode().IsRegular() && objects.IsDir()
}

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
	var lines, notes []string
	var signatures int
	var notChecked, withheld, leftOut int64
	var broken, incomplete, full, clock, unsigned bool
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
	note := func(when, makesIncomplete bool, text string) {
		if when {
			notes = append(notes, quote(text))
			incomplete = incomplete || makesIncomplete
		}
	}
	note(input == "git", false, "events that are not yet in git: the tail of a live journal")
	note(input == "jsonl", false, "commits, trees and refs: an export has none")
	note(input == "proof", false, "all other events: a proof shows what it names")
	note(o.expectSeq == 0, false, "whether newer events were cut off: no head was expected")
	note(signatures == 0, false, "who wrote the events: nothing is signed")
	note(signatures > 0 && !o.trust.given, true, "whose keys signed: no allowed signers were given")
	note(notChecked > 0, true, fmt.Sprint("signatures of a kind that is not checked here: ", notChecked))
	note(clock, false, "when it was signed: an accepted key has an end, and the time is the signer's word")
	note(o.trust.given && unsigned, false, "events after the last accepted signature")
	note(withheld > 0, false, fmt.Sprint("the payloads of withheld events: ", withheld))
	note(leftOut > 0, true, fmt.Sprint("commits that a shallow history leaves out: ", leftOut))
	note(foreign > 0, false, fmt.Sprint("refs that are no line of a journal: ", foreign))
	note(full, true, "what comes after 1000 findings in a line")
	word, status := "ok", 0
	if broken {
		word, status = "broken", 1
	} else if incomplete {
		word, status = "incomplete", 3
	}
	return fmt.Sprintf(`{"input":"%s","lines":%s,"unchecked":%s,"verdict":"%s","version":1}`+"\n",
		input, list(lines), list(notes), word), status
}

// json gives one line of the verdict, members sorted.
func (r *report) json() string {
	var found []finding
	for one := range r.found {
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.code, b.code), cmp.Compare(a.id, b.id))
	})
	var findings, signers, withheld []string
	for _, one := range found {
		seq := "null"
		if one.seq != 0 {
			seq = fmt.Sprint(one.seq)
		}
		findings = append(findings, fmt.Sprintf(`{"code":"%s","id":"%s","seq":%s,"text":"%s"}`,
			one.code, one.id, seq, texts[one.code]))
	}
	for key, one := range r.signers {
		principals := ""
		if one.accepted != nil {
			principals = one.accepted.principals
		}
		signers = append(signers, fmt.Sprintf(`{"key":"%s","principals":%s,"signatures":%d}`,
			key, orNull(principals), one.signatures))
	}
	sort.Strings(signers) // by key, which comes first and is as long everywhere
	for _, span := range r.withheld {
		withheld = append(withheld, fmt.Sprintf("[%d,%d]", span[0], span[1]))
	}
	return fmt.Sprintf(`{"findings":%s,"head":{"commit":%s,"hash":%s,"seq":%d},"name":%s,"seals":%d,"side_files":%d,`+
		`"signatures":%d,"signed_to":%d,"signers":%s,"withheld":%s}`, list(findings), orNull(r.commit),
		orNull(r.headHash), r.headSeq, orNull(r.name), r.seals, r.sideFiles, r.signatures, r.signedTo,
		list(signers), list(withheld))
}

func list(values []string) string { return "[" + strings.Join(values, ",") + "]" }

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return quote(text)
}

// quote gives a JSON string in canonical form.
func quote(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		short := strings.IndexByte("\"\\\b\t\n\f\r", c)
		switch {
		case short >= 0:
			out.WriteString(`\` + `"\btnfr`[short:short+1])
		case c < 0x20:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			out.WriteByte(c)
		}
	}
	return `"` + out.String() + `"`
}
