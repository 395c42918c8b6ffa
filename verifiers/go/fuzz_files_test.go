package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// addVectors adds the files of the vectors that are not large as seeds.
func addVectors(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		names, err := filepath.Glob("../vectors/" + pattern)
		if err != nil || len(names) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range names {
			if raw, err := os.ReadFile(name); err == nil && len(raw) < 8000 {
				f.Add(raw)
			}
		}
	}
}

// fuzzTrust has the keys of the vectors' signatures.
func fuzzTrust(f *testing.F) *trust {
	var t *trust
	if problem := attempt(func() { t = readTrust("../vectors/seals/alice.signers", "") }); problem != "" {
		f.Fatal(problem)
	}
	return t
}

// checkVerdict verifies a file of these bytes: the verdict is one line of canonical JSON that fits its status.
func checkVerdict(t *testing.T, path string, raw []byte, options ...string) {
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	text, status, problem := verify(append(options, path))
	if problem != "" {
		if text != "" || status != 2 && status != 4 {
			t.Errorf("%q, status %d: %s", text, status, problem)
		}
		return
	}
	line, last := strings.CutSuffix(text, "\n")
	var s scanner
	if code := scan(&s, []byte(line)); code != "" || !last {
		t.Errorf("a verdict that is %s: %q", code, text)
	}
	var said struct {
		Verdict string
		Lines   []struct{ Findings []any }
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatal(err)
	}
	found := len(said.Lines[0].Findings) > 0
	if found != (status == 1) || map[int]string{0: "ok", 1: "broken", 3: "incomplete"}[status] != said.Verdict {
		t.Errorf("status %d: %s", status, text)
	}
}

func FuzzExport(f *testing.F) {
	addVectors(f, "lines/*.jsonl", "seals/*.jsonl")
	path := filepath.Join(f.TempDir(), "x.jsonl")
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkVerdict(t, path, raw)
		checkVerdict(t, path, raw, "--allowed-signers", "../vectors/seals/alice.signers", "--require-signed")
	})
}

func FuzzProofFile(f *testing.F) {
	addVectors(f, "proofs/*.json")
	path := filepath.Join(f.TempDir(), "x.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkVerdict(t, path, raw, "--allowed-signers", "../vectors/seals/alice.signers")
	})
}

func FuzzSigners(f *testing.F) {
	addVectors(f, "seals/*.signers", "seals/*.revoked")
	path, known := filepath.Join(f.TempDir(), "x"), fuzzTrust(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		attempt(func() {
			read := readTrust(path, "")
			for _, line := range known.lines {
				read.accepts([]byte(line.key), "git", 0)
			}
		})
		attempt(func() { // what is revoked is never accepted
			both := readTrust("../vectors/seals/alice.signers", path)
			for _, line := range both.lines {
				if both.revoked[line.key] && both.accepts([]byte(line.key), "gitjournal", 0) != nil {
					t.Errorf("revoked, and accepted: %q", raw)
				}
			}
		})
	})
}
