// Command verify-chain verifies a gitjournal repository, export or proof and prints a verdict.
//
// It follows docs/verification.md ("section N" in the comments of this program) and docs/format.md ("format N"), with
// the standard library alone. Where to read on:
//
//	json.go    strict canonical JSON
//	event.go   one event
//	line.go    the rules between the events of a line; names; Merkle trees
//	sign.go    seals, signatures, allowed signers
//	refs.go    refs of a repository
//	git.go     objects, read with git
//	pack.go    objects, read from packs and loose files, which is faster
//	objects.go objects, read with either
//	repo.go    a line in git
//	proof.go   exports and proofs
//	report.go  the verdict
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
	text, status, err := verify(os.Args[1:])
	io.WriteString(os.Stdout, text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// verify gives what is printed and the exit status.
func verify(args []string) (text string, status int, err error) {
	o, err := readOptions(args)
	if err != nil {
		return "", 2, err
	}
	info, err := os.Stat(o.path)
	if err != nil {
		return "", 4, err
	}
	switch {
	case info.IsDir():
		return verifyRepository(o)
	case o.hasName:
		return "", 2, errors.New("a file has no NAME")
	case strings.HasSuffix(o.path, ".jsonl"):
		l, err := checkExport(o.path, o)
		if err != nil {
			return "", 4, err
		}
		text, status = verdict("jsonl", []*report{l.report}, 0, o)
	case strings.HasSuffix(o.path, ".json"):
		if o.expectSeq > 0 {
			return "", 2, errors.New("a proof has no expected head")
		}
		r, err := checkProof(o.path, o)
		if err != nil {
			return "", 4, err
		}
		text, status = verdict("proof", []*report{r}, 0, o)
	default:
		return "", 4, errors.New("neither a folder nor *.jsonl nor *.json: " + o.path)
	}
	return text, status, nil
}

// readOptions reads the arguments; o.trust holds what the files of keys say.
func readOptions(args []string) (*options, error) {
	o := &options{}
	values := map[string]string{"--allowed-signers": "", "--revoked-keys": "", "--expect-seq": "", "--expect-head": ""}
	var positional []string
	for i := 0; i < len(args); i++ {
		_, takesValue := values[args[i]]
		switch {
		case takesValue && i+1 < len(args) && args[i+1] != "":
			values[args[i]] = args[i+1]
			i++
		case args[i] == "--require-signed":
			o.requireSigned = true
		case strings.HasPrefix(args[i], "-"):
			return nil, errors.New(usage)
		default:
			positional = append(positional, args[i])
		}
	}
	if len(positional) < 1 || len(positional) > 2 {
		return nil, errors.New(usage)
	}
	o.path = positional[0]
	if len(positional) == 2 {
		o.name, o.hasName = positional[1], true
	}
	if seq, head := values["--expect-seq"], values["--expect-head"]; seq != "" || head != "" {
		o.expectSeq, o.expectHead = readSeq(seq), head
		if o.expectSeq == 0 || !isHash([]byte(head)) {
			return nil, errors.New(usage)
		}
	}
	var err error
	o.trust, err = readTrust(values["--allowed-signers"], values["--revoked-keys"])
	return o, err
}

// readSeq reads 1 to 8 digits without a leading 0; 0 for anything else.
func readSeq(text string) int64 {
	if !consists([]byte(text), 1, 8, &decimal) || text[0] == '0' {
		return 0
	}
	seq, _ := strconv.ParseInt(text, 10, 64)
	return seq
}

func verifyRepository(o *options) (text string, status int, err error) {
	dir := o.path
	if !isRepository(dir) {
		dir = filepath.Join(dir, ".git")
		if !isRepository(dir) {
			return "", 4, errors.New("no repository: " + o.path)
		}
	}
	if found, err := os.Stat(filepath.Join(dir, "reftable")); err == nil && found.IsDir() {
		return "", 4, errors.New("refs in the reftable format cannot be read")
	}
	refs, foreign, err := readRefs(dir)
	if err != nil { // it names a folder, perhaps with control characters
		return "", 4, errors.New("the refs cannot be read")
	}
	var picked []ref
	for _, one := range refs {
		if !o.hasName || one.session+"/"+one.branch == o.name || one.session == o.name && one.branch == "main" {
			picked = append(picked, one)
		}
	}
	if len(picked) == 0 {
		return "", 4, errors.New("no such line")
	}
	if o.expectSeq > 0 && (!o.hasName || len(picked) != 1) {
		return "", 2, errors.New("an expected head needs exactly one line")
	}
	var lines []*line
	var reports []*report
	objects, err := openObjects(dir)
	if err != nil {
		return "", 4, err
	}
	defer objects.close()
	for _, one := range picked {
		l := checkLine(objects, one, o)
		// Only lines that stand under the name of their session are compared (section 7).
		for i, other := range lines {
			if l.session != "" && l.session == other.session && encode(l.session) == one.session && one.session == picked[i].session {
				l.equivocates(other)
			}
		}
		lines = append(lines, l)
		reports = append(reports, l.report)
	}
	text, status = verdict("git", reports, foreign, o)
	return text, status, nil
}

func isRepository(dir string) bool {
	head, err1 := os.Stat(filepath.Join(dir, "HEAD"))
	objects, err2 := os.Stat(filepath.Join(dir, "objects"))
	return err1 == nil && err2 == nil && head.Mode().IsRegular() && objects.IsDir()
}
