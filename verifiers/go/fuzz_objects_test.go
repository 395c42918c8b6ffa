package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// addObjects adds the objects of a kind in some of the vectors as seeds.
func addObjects(f *testing.F, kind string) {
	names, err := filepath.Glob("../vectors/git/good*.repo.json")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		var said struct {
			Objects []struct {
				Type, Content string
				ContentB64    string `json:"content_b64"`
			}
		}
		if err != nil || json.Unmarshal(raw, &said) != nil {
			f.Fatal(name, err)
		}
		for _, one := range said.Objects {
			content := []byte(one.Content)
			if one.ContentB64 != "" {
				content, _ = base64.StdEncoding.DecodeString(one.ContentB64)
			}
			if one.Type == kind {
				f.Add(content)
			}
		}
	}
}

func FuzzTree(f *testing.F) {
	addObjects(f, "tree")
	f.Fuzz(func(t *testing.T, raw []byte) {
		var again []byte
		good := attempt(func() {
			treeEntries(raw, func(mode, name []byte, id oid) {
				again = append(append(append(append(append(again, mode...), ' '), name...), 0), id[:]...)
			})
		}) == ""
		if good && !bytes.Equal(again, raw) {
			t.Errorf("%q is not %q", again, raw)
		}
		for _, first := range []int64{0, 100, 99999900} {
			if attempt(func() { readLeaf(raw, first) }) == "" && !good {
				t.Errorf("a leaf that is no tree: %q", raw)
			}
		}
	})
}

func FuzzCommit(f *testing.F) {
	addObjects(f, "commit")
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := parentOf(raw)
		var c, again commit
		if attempt(func() { c = readCommit(raw) }) != "" {
			return
		}
		if parent != nil && !bytes.Contains(raw, []byte("\nparent "+parent.String()+"\n")) {
			t.Errorf("parent %s of %q", parent, raw)
		}
		unsigned := strings.Replace(string(raw), c.header, "", 1)
		code := attempt(func() { again = readCommit([]byte(unsigned)) })
		if code != "" || len(again.header) > 0 || again.hash != c.hash || again.seq != c.seq || again.tree != c.tree {
			t.Errorf("%q without its signature: %+v", raw, again)
		}
	})
}

// FuzzPack reads what a pack and an index of any bytes have, as far as they can be opened.
func FuzzPack(f *testing.F) {
	repository := writeRepository(f)
	list := exec.Command("git", "--git-dir="+repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
	ids, err := list.Output()
	if err != nil {
		f.Fatal(err)
	}
	for _, option := range []string{"--window=10", "--window=0", "--delta-base-offset"} {
		command := exec.Command("git", "--git-dir="+repository, "pack-objects", "-q", option, filepath.Join(f.TempDir(), "p"))
		command.Stdin = bytes.NewReader(ids)
		out, err := command.Output()
		if err != nil {
			f.Fatal(err)
		}
		base := command.Args[len(command.Args)-1] + "-" + strings.TrimSpace(string(out))
		pack, _ := os.ReadFile(base + ".pack")
		index, _ := os.ReadFile(base + ".idx")
		f.Add(pack, index)
	}
	dir := f.TempDir()
	folder := filepath.Join(dir, "objects", "pack")
	os.MkdirAll(folder, 0o700)
	f.Fuzz(func(t *testing.T, packed, index []byte) {
		os.WriteFile(filepath.Join(folder, "p.pack"), packed, 0o600)
		os.WriteFile(filepath.Join(folder, "p.idx"), index, 0o600)
		s := openStore(dir)
		u := newUnpacker(s)
		for _, p := range s.packs {
			for i := 0; 20*i < len(p.ids) && i < 64; i++ {
				for _, kind := range []string{"commit", "tree", "blob"} {
					if data := u.read(kind, oid(p.id(i))); len(data) > maxUnpacked {
						t.Errorf("%d bytes", len(data))
					}
				}
			}
		}
	})
}
