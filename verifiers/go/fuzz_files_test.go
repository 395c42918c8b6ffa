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
	t, err := readTrust("../vectors/seals/alice.signers", "")
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// checkVerdict verifies a file of these bytes: the verdict is one line of canonical JSON that fits its status.
func checkVerdict(t *testing.T, path string, raw []byte, options ...string) {
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	text, status, err := verify(append(options, path))
	if err != nil {
		if text != "" || status != 2 && status != 4 {
			t.Errorf("%q, status %d: %v", text, status, err)
		}
		return
	}
	line, last := strings.CutSuffix(text, "\n")
	var s scanner
	if code := s.scan([]byte(line)); code != "" || !last {
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
		if t, err := readTrust(path, ""); err == nil {
			for _, line := range known.lines {
				t.accepts([]byte(line.key), "git", 0)
			}
		}
		// What is revoked is never accepted.
		if both, err := readTrust("../vectors/seals/alice.signers", path); err == nil {
			for _, line := range both.lines {
				if both.revoked[line.key] && both.accepts([]byte(line.key), "gitjournal", 0) != nil {
					t.Errorf("revoked, and accepted: %q", raw)
				}
			}
		}
	})
}
