package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
)

// run is one check of one line in git (section 8).
type run struct {
	*line
	objects      *objects
	head         oid
	rootID       oid
	root, middle *folder // that were read last
	derive       deriver
	deriving     bool
	jobs         []request // objects that must be there, not yet asked for
	asked        []*group  // jobs

	// With walk, the commits are read from the head back: actual is those from the head to the one of the place reached,
	// which names the commit before. Without, all that is derived must be there, and lead to the head.
	walk      bool
	actual    []oid
	reached   int64
	before    *oid
	actualRaw []byte // the actual commit of the place that is looked at
}

// checkLine checks a line in git: by the shortcut of section 8 or, if that does not lead to the head, walking.
func checkLine(objects *objects, f ref, o *options) *line {
	if !f.holds {
		l := newLine(newReport(f.name, ""), o.trust)
		l.add("wrong-ref", 0, "")
		return l
	}
	check := func(walk bool) (*line, bool) {
		l := newLine(newReport(f.name, f.id.String()), o.trust)
		r := &run{line: l, objects: objects, head: f.id, deriving: true, walk: walk}
		return l, r.check()
	}
	l, done := check(false)
	if !done {
		l, _ = check(true)
	}
	if l.session != "" && (encode(l.session) != f.session || encode(l.branch) != f.branch) {
		l.add("wrong-ref", 0, f.id.String())
	}
	l.end(o)
	return l
}

// What is asked for in advance, so that no goroutine has to wait for another at each step.
const leavesAhead, groupsAhead = 4, 16

// check is false if the shortcut does not lead to the head.
func (r *run) check() bool {
	// This one is read with git in any case: what is no repository to git has no objects.
	raw, code := r.objects.git.read("commit", r.head)
	c, good := readCommit(raw)
	if code == "" && !good {
		code = "bad-commit"
	}
	if code != "" {
		r.add(code, 0, r.head.String())
		return true
	}
	r.headSeq, _ = strconv.ParseInt(c.seq, 10, 64)
	r.rootID = c.tree
	if r.walk {
		r.walkBack()
	}
	var leaves []*leaf
	for first, opened := int64(0), int64(0); first <= r.headSeq && !r.full(); first += 100 {
		for ; opened <= min(first+leavesAhead*100, r.headSeq); opened += 100 {
			leaves = append(leaves, r.openLeaf(opened))
		}
		r.derive.turn()
		r.checkLeaf(leaves[0])
		leaves = leaves[1:]
		r.checkJobs(groupsAhead)
		if !r.walk && !r.deriving {
			return false
		}
	}
	r.checkJobs(0)
	return r.walk || r.full() || r.deriving && *r.derive.parent == r.head
}

// walkBack reads the commits from the head to that of seq 1, or to one before which nothing can be read.
func (r *run) walkBack() {
	r.reached = r.headSeq + 1
	for id := &r.head; ; id = r.before {
		seq := r.reached - 1
		raw, code := r.objects.read("commit", *id)
		if code == "missing-object" && len(r.actual) > 0 && r.isShallow(r.actualAt(r.reached)) {
			r.leftOut = seq
			return
		} else if code != "" {
			r.add(code, seq, id.String())
			return
		}
		r.actual = append(r.actual, *id)
		r.reached, r.before = seq, parentOf(raw)
		switch {
		case seq == 1 && r.before != nil:
			r.add("bad-commit", 1, r.before.String())
		case seq > 1 && r.before == nil:
			r.add("bad-commit", seq, id.String())
		case seq > 1:
			continue
		}
		return
	}
}

func (r *run) actualAt(seq int64) oid { return r.actual[r.headSeq-seq] }

// isShallow tells whether the history is cut behind a commit, as the file shallow says.
func (r *run) isShallow(id oid) (found bool) {
	eachLine(filepath.Join(r.objects.git.dir, "shallow"), func(line string) { found = found || line == id.String() })
	return found
}

// leaf is a leaf tree, whose events have been asked for.
type leaf struct {
	first, begin, end int64
	places            *[100]place
	code, id          string // why it has no places
	events            *group // of each place the actual commit, if the walk came there, and the event
}

func (r *run) openLeaf(first int64) *leaf {
	l := &leaf{first: first, begin: max(first, 1), end: min(first+100, r.headSeq+1)}
	if l.places, l.code, l.id = r.readLeaf(first); l.code != "" {
		return l
	}
	wanted := make([]request, 0, 200)
	for seq := l.begin; seq < l.end; seq++ {
		if r.walk && seq >= r.reached {
			wanted = append(wanted, request{kind: "commit", id: r.actualAt(seq)})
		}
		if p := &l.places[seq-first]; p.there {
			wanted = append(wanted, request{kind: "blob", id: p.blob})
		}
	}
	l.events = r.objects.ask(wanted)
	return l
}

// checkLeaf checks the events of a leaf tree. Their side files, and the objects that they derive, become jobs.
func (r *run) checkLeaf(l *leaf) {
	if l.code != "" {
		r.add(l.code, l.begin, l.id)
		r.deriving = false
		for r.seq = l.begin; r.seq < l.end; r.seq++ {
			r.lose()
		}
		return
	}
	for r.seq = l.begin; r.seq < l.end; r.seq++ {
		r.checkPlace(l, &l.places[r.seq-l.first])
		if len(r.jobs) >= 100 || r.seq == l.end-1 {
			r.asked = append(r.asked, r.objects.ask(r.jobs))
			r.jobs = make([]request, 0, 100)
		}
	}
}

// checkPlace checks the event at r.seq.
func (r *run) checkPlace(l *leaf, p *place) {
	if r.walk && r.seq >= r.reached {
		found, code := r.objects.answer(l.events)
		r.actualRaw = found.data
		if code != "" { // it was good when the walk came there
			r.add(code, r.seq, r.actualAt(r.seq).String())
			r.deriving = false
		}
	}
	var e event
	code := "missing-object"
	r.blob = nil
	if p.there {
		r.blob = &p.blob
		var found *request
		if found, code = r.objects.answer(l.events); code == "" {
			e, code = r.reader.event(found.data)
		}
	}
	if code != "" {
		r.fault(code)
		r.lose()
		r.deriving = false
		return
	}
	r.step(&e)
	r.checkFiles(&e, p)
	r.deriving = r.deriving && e.seq == r.seq
	if r.deriving {
		r.compare(&e, p)
	}
}

// checkFiles makes jobs of the side files of an event.
func (r *run) checkFiles(e *event, p *place) {
	good := len(p.files) == len(e.files)
	numbered := make([]oid, len(e.files))
	for _, one := range p.files {
		// As no name is there twice, so many numbers that are not too high are all of them.
		k, _ := strconv.Atoi(one.number)
		if good = good && k <= len(numbered); good {
			numbered[k-1] = one.id
		}
	}
	if !good {
		r.add("bad-file", r.seq, string(r.prev))
		return
	}
	for i := range numbered {
		r.jobs = append(r.jobs, request{seq: r.seq, kind: "blob", id: numbered[i], file: &e.files[i]})
	}
}

// compare derives the objects of an event and compares its commit; its trees become jobs.
func (r *run) compare(e *event, p *place) {
	if r.walk && e.seq == r.reached && e.seq > 1 {
		// What comes before was not read and may be signed: its id cannot be derived.
		r.derive.parent = r.before
	}
	derived := r.derive.push(e, r.prev, p)
	wanted := derived[:]
	if r.walk {
		if e.seq < r.reached {
			return
		}
		actual := r.actualAt(e.seq)
		if actual != derived[3].id {
			if code := r.difference(e, derived[3].bytes); code != "" {
				r.add(code, e.seq, actual.String())
				r.deriving = false
				return
			}
		}
		r.derive.parent = &actual
		wanted = derived[:3]
	}
	for _, one := range wanted {
		r.jobs = append(r.jobs, request{seq: e.seq, kind: one.kind, id: one.id, expected: one.bytes})
	}
}

// difference says what is wrong with the actual commit, whose id is not the derived one. Nothing, if it is the derived
// one with a signature; that is checked then.
func (r *run) difference(e *event, derived []byte) (code string) {
	c, good := readCommit(r.actualRaw)
	if !good {
		return "bad-commit"
	}
	head, body, _ := bytes.Cut(derived, []byte("\n\n"))
	if len(c.header) > 0 && string(r.actualRaw) == fmt.Sprintf("%s\n%s\n%s", head, c.header, body) {
		s := signed{"git", derived, r.derive.time, e.seq}
		r.signature(r.trust, s, string(c.block), nil, e.seq, r.actualAt(e.seq).String())
		return ""
	}
	if c.hash != string(r.prev) {
		return "bad-hash"
	}
	if c.seq != strconv.FormatInt(e.seq, 10) || c.session != string(e.session) || c.kind != string(e.kind) {
		return "bad-commit"
	}
	return "bad-tree"
}

// checkJobs looks at the answers to jobs, but for so many groups.
func (r *run) checkJobs(left int) {
	for ; len(r.asked) > left; r.asked = r.asked[1:] {
		g := r.asked[0]
		for range g.requests {
			q, code := r.objects.answer(g)
			switch {
			case q.file == nil:
				r.deriving = r.deriving && (code == "" || r.walk)
			case code == "" && q.read == *q.file:
				r.sideFiles++
			case code == "":
				code = "bad-file"
			}
			if code != "" {
				r.add(code, q.seq, q.id.String())
			}
		}
	}
}

// folder is a root or middle tree: its folders, or the code that says why there are none.
type folder struct {
	id      oid
	code    string
	folders map[string]oid
}

func (r *run) readFolder(id oid) *folder {
	f := &folder{id: id, folders: map[string]oid{}}
	var raw []byte
	raw, f.code = r.objects.read("tree", id)
	good := treeEntries(raw, func(mode, name []byte, id oid) bool {
		// Of two folders of one name the first one counts; comparing finds the fault.
		if _, there := f.folders[string(name)]; !there && string(mode) == "40000" {
			f.folders[string(name)] = id
		}
		return true
	})
	if !good {
		f.code = "bad-tree"
	}
	return f
}

// readLeaf reads the leaf tree that begins at a multiple of 100, through the root and the middle tree. A code is a finding
// of the whole leaf.
func (r *run) readLeaf(first int64) (places *[100]place, code, id string) {
	if first == 0 {
		r.root = r.readFolder(r.rootID)
	}
	if first%10000 == 0 {
		r.middle = nil
		if middle, there := r.root.folders[rootName(first)]; there {
			r.middle = r.readFolder(middle)
		}
	}
	if r.root.code != "" {
		return nil, r.root.code, r.root.id.String()
	}
	if r.middle == nil {
		return nil, "missing-object", ""
	}
	if r.middle.code != "" {
		return nil, r.middle.code, r.middle.id.String()
	}
	leaf, there := r.middle.folders[middleName(first)]
	if !there {
		return nil, "missing-object", ""
	}
	raw, code := r.objects.read("tree", leaf)
	if code == "" {
		if places = readLeaf(raw, first); places == nil {
			code = "bad-tree"
		}
	}
	return places, code, leaf.String()
}
