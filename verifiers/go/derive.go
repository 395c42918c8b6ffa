package main

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"unicode/utf8"
)

// commitForm is the form of a commit (format 6); that the two actors and the two times are the same is looked at apart.
var commitForm = regexp.MustCompile(`\Atree ([0-9a-f]{40})\n(?:parent [0-9a-f]{40}\n)?` +
	`author ([A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}) <([^\n<>]+)@gitjournal\.invalid> (0|[1-9][0-9]{0,11}) \+0000\n` +
	`committer gitjournal <gitjournal@gitjournal\.invalid> (0|[1-9][0-9]{0,11}) \+0000\n` +
	`(gpgsig (-----BEGIN SSH SIGNATURE-----\n(?: [A-Za-z0-9+/=]+\n)+ -----END SSH SIGNATURE-----)\n)?` +
	`\n([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*) #([1-9][0-9]{0,7})\n\n` +
	`Session: ([^\n\x00]+)\nEvent-Hash: sha256:([0-9a-f]{64})\n\z`)

// commit is what a commit says. header is its whole gpgsig header, block the signature in it; both may be empty.
type commit struct {
	tree                     oid
	header, block            []byte
	kind, seq, session, hash string
}

func readCommit(raw []byte) (c commit, good bool) {
	m := commitForm.FindSubmatch(raw)
	if m == nil || !bytes.Equal(m[2], m[3]) || !bytes.Equal(m[4], m[5]) {
		return c, false
	}
	c = commit{header: m[6], block: bytes.ReplaceAll(m[7], []byte("\n "), []byte("\n")),
		kind: string(m[8]), seq: string(m[9]), session: string(m[10]), hash: string(m[11])}
	c.tree, _ = readID(string(m[1]))
	return c, len(c.kind) <= 64 && utf8.Valid(m[10]) && isName(m[10])
}

// parentOf gives the parent in the second line of a commit, whatever else it holds; nil if there is none.
func parentOf(raw []byte) *oid {
	lines := bytes.SplitN(raw, []byte("\n"), 3)
	if len(lines) < 2 || !bytes.HasPrefix(lines[1], []byte("parent ")) {
		return nil
	}
	parent, good := readID(string(lines[1][len("parent "):]))
	if !good {
		return nil
	}
	return &parent
}

// treeEntries gives the entries of a tree one after the other; false if it is no tree, or each says so.
func treeEntries(tree []byte, each func(mode, name []byte, id oid) bool) bool {
	for len(tree) > 0 {
		zero := bytes.IndexByte(tree, 0)
		if zero < 0 || len(tree) < zero+21 {
			return false
		}
		mode, name, _ := bytes.Cut(tree[:zero], []byte(" "))
		var id oid
		copy(id[:], tree[zero+1:])
		if len(mode) == 0 || len(name) == 0 || !each(mode, name, id) {
			return false
		}
		tree = tree[zero+21:]
	}
	return true
}

// place is what a leaf tree has for one event.
type place struct {
	blob  oid
	there bool
	files []sideFile // by name
}

type sideFile struct {
	number string // its decimal digits
	id     oid
}

// readLeaf gives the places of a leaf tree; nil if it has another entry than format 5 names, or one twice.
func readLeaf(raw []byte, first int64) *[100]place {
	var places [100]place
	var names [][]byte
	ascending := true
	good := treeEntries(raw, func(mode, name []byte, id oid) bool {
		ascending = ascending && (len(names) == 0 || bytes.Compare(names[len(names)-1], name) < 0)
		names = append(names, name)
		if string(mode) != "100644" || len(name) < 10 || name[8] != '.' || !consists(name[:8], 8, 8, &decimal) {
			return false
		}
		seq, _ := strconv.ParseInt(string(name[:8]), 10, 64)
		p := &place{} // an entry of another leaf; comparing finds the fault
		if seq >= first && seq < first+100 {
			p = &places[seq-first]
		}
		number := name[9:]
		if string(number) == "json" {
			p.blob, p.there = id, true
			return true
		}
		p.files = append(p.files, sideFile{string(number), id})
		return consists(number, 1, 9, &decimal) && number[0] != '0'
	})
	if !good || !ascending && repeated(names) {
		return nil
	}
	for i := range places {
		files := places[i].files
		sort.Slice(files, func(a, b int) bool { return files[a].number < files[b].number })
	}
	return &places
}

// object is one that the events derive.
type object struct {
	kind  string
	id    oid
	bytes []byte
}

// deriver computes the trees and the commit of each event (format 5 and 6).
type deriver struct {
	leaf, middle, root []byte // middle and root without their last entry, which still changes
	leafID, middleID   oid
	parent             *oid
	time               int64
	text               []byte // of the objects of this leaf
}

// turn begins a leaf. The objects of the one before live on.
func (d *deriver) turn() { d.text = make([]byte, 0, cap(d.text)) }

// push derives leaf, middle and root tree, and the commit, unsigned. hash is the hex of the event's.
func (d *deriver) push(e *event, hash []byte, p *place) [4]object {
	if e.seq%100 == 0 && len(d.leaf) > 0 { // the leaf before is full
		d.middle = appendFolder(d.middle, middleName(e.seq-1), d.leafID)
		d.leaf = nil
		if e.seq%10000 == 0 {
			d.root = appendFolder(d.root, rootName(e.seq-1), d.middleID)
			d.middle = nil
		}
	}
	for _, file := range p.files {
		d.leaf = fmt.Appendf(d.leaf, "100644 %08d.%s\x00%s", e.seq, file.number, file.id[:])
	}
	d.leaf = fmt.Appendf(d.leaf, "100644 %08d.json\x00%s", e.seq, p.blob[:])
	// A leaf only grows, so the bytes of this one stay what they are.
	leaf := object{"tree", objectID("tree", d.leaf), d.leaf}
	middle := d.object("tree", appendFolder(append(d.text, d.middle...), middleName(e.seq), leaf.id))
	root := d.object("tree", appendFolder(append(d.text, d.root...), rootName(e.seq), middle.id))
	d.leafID, d.middleID = leaf.id, middle.id
	if e.time > d.time {
		d.time = e.time
	}
	parent := ""
	if d.parent != nil {
		parent = "parent " + d.parent.String() + "\n"
	}
	commit := d.object("commit", fmt.Appendf(d.text, "tree %s\n%sauthor %s <%s@gitjournal.invalid> %d +0000\n"+
		"committer gitjournal <gitjournal@gitjournal.invalid> %d +0000\n\n%s #%d\n\nSession: %s\nEvent-Hash: sha256:%s\n",
		root.id.String(), parent, e.actor, e.actor, d.time, d.time, e.kind, e.seq, e.session, hash))
	d.parent = &commit.id
	return [4]object{leaf, middle, root, commit}
}

func rootName(seq int64) string   { return fmt.Sprintf("%04d", seq/10000) }
func middleName(seq int64) string { return fmt.Sprintf("%02d", seq/100%100) }

func appendFolder(tree []byte, name string, id oid) []byte {
	return fmt.Appendf(tree, "40000 %s\x00%s", name, id[:])
}

// object takes what was appended to d.text.
func (d *deriver) object(kind string, text []byte) object {
	added := text[len(d.text):]
	d.text = text
	return object{kind, objectID(kind, added), added}
}
