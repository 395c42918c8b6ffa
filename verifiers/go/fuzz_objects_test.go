package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
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
		good := treeEntries(raw, func(mode, name []byte, id oid) bool {
			again = append(append(append(append(append(again, mode...), ' '), name...), 0), id[:]...)
			return true
		})
		if good && !bytes.Equal(again, raw) {
			t.Errorf("%q is not %q", again, raw)
		}
		for _, first := range []int64{0, 100, 99999900} {
			if places := readLeaf(raw, first); places != nil && !good {
				t.Errorf("a leaf that is no tree: %q", raw)
			}
		}
	})
}

func FuzzCommit(f *testing.F) {
	addObjects(f, "commit")
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := parentOf(raw)
		c, good := readCommit(raw)
		if !good {
			return
		}
		if parent != nil && !bytes.Contains(raw, []byte("\nparent "+parent.String()+"\n")) {
			t.Errorf("parent %s of %q", parent, raw)
		}
		unsigned := bytes.Replace(raw, c.header, nil, 1)
		again, good := readCommit(unsigned)
		if !good || len(again.header) > 0 || again.hash != c.hash || again.seq != c.seq || again.tree != c.tree {
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
	os.MkdirAll(filepath.Join(dir, "pack"), 0o700)
	f.Fuzz(func(t *testing.T, packed, index []byte) {
		os.WriteFile(filepath.Join(dir, "pack", "p.pack"), packed, 0o600)
		os.WriteFile(filepath.Join(dir, "pack", "p.idx"), index, 0o600)
		packs := openPacks(dir)
		u := newUnpacker(dir, packs)
		for _, p := range packs {
			for at := 0; at < len(p.ids) && at < 20*64; at += 20 {
				for _, kind := range []string{"commit", "tree", "blob"} {
					if data := u.read(kind, oid(p.ids[at:])); len(data) > maxUnpacked {
						t.Errorf("%d bytes", len(data))
					}
				}
			}
			p.file.Close()
		}
	})
}

// FuzzInflate compares with the standard library, which takes the same streams.
func FuzzInflate(f *testing.F) {
	for level := range 10 {
		var out bytes.Buffer
		w, _ := zlib.NewWriterLevel(&out, level)
		w.Write([]byte(event1 + event2 + event1))
		w.Close()
		f.Add(out.Bytes())
	}
	const most = 1 << 16
	var i inflater
	f.Fuzz(func(t *testing.T, text []byte) {
		data, used, good := i.inflate(nil, text, most)
		in := bytes.NewReader(text)
		r, err := zlib.NewReader(in)
		if err != nil {
			if good {
				t.Errorf("good, but not to the library: %v", err)
			}
			return
		}
		var want bytes.Buffer
		_, err = io.Copy(&want, io.LimitReader(r, most+1))
		// The first byte says how far back a stream may look, which only 0x78 leaves open.
		if right := err == nil && want.Len() <= most && text[0] == 0x78; right != good {
			t.Errorf("good %v, but to the library %v", good, err)
		}
		if good && (!bytes.Equal(data, want.Bytes()) || used != len(text)-in.Len()) {
			t.Errorf("%d bytes of %d, %q, not %q", used, len(text), data, want.Bytes())
		}
	})
}
