package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// toID reads the 40 hex digits of an id.
func toID(text string) (id oid) {
	hex.Decode(id[:], []byte(text))
	return id
}

// ref is a ref that is a line: its session and branch, encoded. holds is false if it holds no commit id.
type ref struct {
	name, session, branch string
	id                    oid
	holds                 bool
}

// maxGitFile is the largest packed-refs and shallow (section 5).
const maxGitFile = 256 << 20

var (
	packedRef  = regexp.MustCompile(`(?s)\A([0-9a-f]{40}) (refs/(?:heads|remotes)/.*)\z`)
	lineRef    = regexp.MustCompile(`\Arefs/(?:heads|remotes/([^/]+))/([^/]+)/([^/]+)\z`)
	commitID   = regexp.MustCompile(`\A[0-9a-f]{40}\z`)
	remoteHead = regexp.MustCompile(`\Arefs/remotes/[^/]*/HEAD\z`)
)

// readRefs reads the refs of a repository from its files (section 5), sorted by name, and counts the foreign ones.
func readRefs(dir string) (lines []ref, foreign int) {
	for _, name := range []string{"packed-refs", "shallow"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		must(err != nil || !info.Mode().IsRegular() || info.Size() <= maxGitFile, "packed-refs or shallow is too large")
		mustOpen(filepath.Join(dir, name), err == nil && info.Mode().IsRegular())
	}
	held := map[string]string{} // by ref, what it holds
	eachLine(filepath.Join(dir, "packed-refs"), func(line string) {
		if packed := packedRef.FindStringSubmatch(line); packed != nil {
			held[packed[2]] = packed[1]
		}
	})
	looseRefs(dir, "refs/heads", held)
	looseRefs(dir, "refs/remotes", held)
	for name, text := range held {
		if !commitID.MatchString(text) {
			text = ""
		}
		parts := lineRef.FindStringSubmatch(name)
		// A remote is called by a name, too, but as it stands.
		if parts != nil && isPart(parts[2]) && isPart(parts[3]) && utf8.ValidString(name) && (parts[1] == "" || isName([]byte(parts[1]))) {
			lines = append(lines, ref{name, parts[2], parts[3], toID(text), text != ""})
		} else if !remoteHead.MatchString(name) {
			foreign++
		}
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i].name < lines[j].name })
	return lines, foreign
}

// looseRefs reads the files under a folder, which is no link.
func looseRefs(dir, under string, held map[string]string) {
	if !isDir(filepath.Join(dir, "refs")) || !isDir(filepath.Join(dir, under)) {
		return
	}
	filepath.WalkDir(filepath.Join(dir, under), func(path string, entry os.DirEntry, err error) error {
		must(err == nil, "the refs cannot be read") // err names a folder, perhaps with control characters
		if entry.IsDir() || strings.HasSuffix(path, ".lock") {
			return nil
		}
		mustOpen(path, entry.Type().IsRegular())
		text, complete := strings.CutSuffix(string(readFile(path, 41)), "\n")
		if !complete {
			text = ""
		}
		held[under+path[len(filepath.Join(dir, under)):]] = text
		return nil
	})
}

// mustOpen sees to it that a regular file can be read: a line may stand in it.
func mustOpen(path string, isRegular bool) {
	if isRegular {
		file, err := os.Open(path)
		must(err == nil, "a file of refs, or shallow, cannot be read")
		file.Close()
	}
}

// isDir tells whether there is a folder, not a link to one.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// commitForm is the form of a commit (format 6); that the two actors and the two times are the same is looked at apart.
var commitForm = regexp.MustCompile(`\Atree ([0-9a-f]{40})\n(?:parent [0-9a-f]{40}\n)?` +
	`author ([A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}) <([^\n<>]+)@gitjournal.invalid> (0|[1-9][0-9]{0,11}) \+0000\n` +
	`committer gitjournal <gitjournal@gitjournal\.invalid> (0|[1-9][0-9]{0,11}) \+0000\n` +
	`(gpgsig (-----BEGIN SSH SIGNATURE-----\n(?: [A-Za-z0-9+/=]+\n)+ -----END SSH SIGNATURE-----)\n)?` +
	`\n([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*) #([1-9][0-9]{0,7})\n\n` +
	`Session: ([^\n\x00]+)\nEvent-Hash: sha256:([0-9a-f]{64})\n\z`)

// commit is what a commit says. header is its whole gpgsig header, block the signature in it; both may be empty.
type commit struct {
	tree                                    oid
	header, block, kind, seq, session, hash string
}

func readCommit(raw []byte) commit {
	m := commitForm.FindStringSubmatch(string(raw))
	must(m != nil && m[2] == m[3] && m[4] == m[5] && len(m[8]) <= 64, "bad-commit")
	must(utf8.ValidString(m[10]) && isName([]byte(m[10])), "bad-commit")
	return commit{toID(m[1]), m[6], strings.ReplaceAll(m[7], "\n ", "\n"), m[8], m[9], m[10], m[11]}
}

// parentOf gives the parent in the second line of a commit, whatever else it holds; nil if there is none.
func parentOf(raw []byte) *oid {
	m := parentLine.FindSubmatch(raw)
	if m == nil {
		return nil
	}
	parent := toID(string(m[1]))
	return &parent
}

var parentLine = regexp.MustCompile(`\A[^\n]*\nparent ([0-9a-f]{40})(?:\n|\z)`)

// treeEntries gives the entries of a tree one after the other.
func treeEntries(tree []byte, each func(mode, name []byte, id oid)) {
	for len(tree) > 0 {
		entry, rest, _ := bytes.Cut(tree, []byte{0})
		mode, name, _ := bytes.Cut(entry, []byte(" "))
		must(len(mode) > 0 && len(name) > 0 && len(rest) >= 20, "bad-tree")
		each(mode, name, oid(rest))
		tree = rest[20:]
	}
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

// readLeaf gives the places of a leaf tree. It must have no other entry than format 5 names, and none twice.
func readLeaf(raw []byte, first int64) *[100]place {
	var places [100]place
	var names [][]byte
	treeEntries(raw, func(mode, name []byte, id oid) {
		names = append(names, name)
		must(string(mode) == "100644" && len(name) >= 10 && name[8] == '.', "bad-tree")
		must(consists(name[:8], 8, 8, decimal), "bad-tree")
		seq, _ := strconv.ParseInt(string(name[:8]), 10, 64)
		p := &place{} // an entry of another leaf; comparing finds the fault
		if seq >= first && seq < first+100 {
			p = &places[seq-first]
		}
		number := name[9:]
		if string(number) == "json" {
			p.blob, p.there = id, true
			return
		}
		must(consists(number, 1, 9, decimal) && number[0] != '0', "bad-tree")
		p.files = append(p.files, sideFile{string(number), id})
	})
	must(!repeated(names), "bad-tree")
	for _, p := range places {
		slices.SortFunc(p.files, func(a, b sideFile) int { return strings.Compare(a.number, b.number) })
	}
	return &places
}

// deriver computes the trees and the commit of each event (format 5 and 6).
type deriver struct {
	leaf, middle, root []byte // middle and root without their last entry, which still changes
	leafID, middleID   oid
	parent             *oid
	time               int64
}

// push derives leaf, middle and root tree, and the commit, unsigned. hash is the hex of the event's.
func (d *deriver) push(e *event, hash []byte, p *place) [4]request {
	derived := func(kind string, text []byte) request {
		return request{seq: e.seq, kind: kind, id: objectID(kind, text), expected: text}
	}
	if e.seq%100 == 0 && len(d.leaf) > 0 { // the leaf before is full
		d.middle = append(d.middle, folderEntry(middleName(e.seq-1), d.leafID)...)
		d.leaf = nil
		if e.seq%10000 == 0 {
			d.root = append(d.root, folderEntry(rootName(e.seq-1), d.middleID)...)
			d.middle = nil
		}
	}
	for _, file := range p.files {
		d.leaf = fmt.Appendf(d.leaf, "100644 %08d.%s\x00%s", e.seq, file.number, file.id[:])
	}
	d.leaf = fmt.Appendf(d.leaf, "100644 %08d.json\x00%s", e.seq, p.blob[:])
	// A leaf only grows, so the bytes of this one stay what they are.
	leaf := derived("tree", d.leaf)
	middle := derived("tree", slices.Concat(d.middle, folderEntry(middleName(e.seq), leaf.id)))
	root := derived("tree", slices.Concat(d.root, folderEntry(rootName(e.seq), middle.id)))
	d.leafID, d.middleID, d.time = leaf.id, middle.id, max(d.time, e.time)
	parent := ""
	if d.parent != nil {
		parent = "parent " + d.parent.String() + "\n"
	}
	commit := derived("commit", fmt.Appendf(make([]byte, 0, 512), "tree %s\n%s"+
		"author %s <%s@gitjournal.invalid> %d +0000\n"+
		"committer gitjournal <gitjournal@gitjournal.invalid> %d +0000\n\n"+
		"%s #%d\n\nSession: %s\nEvent-Hash: sha256:%s\n",
		root.id, parent, e.actor, e.actor, d.time, d.time, e.kind, e.seq, e.session, hash))
	d.parent = &commit.id
	return [4]request{leaf, middle, root, commit}
}

func rootName(seq int64) string   { return fmt.Sprintf("%04d", seq/10000) }
func middleName(seq int64) string { return fmt.Sprintf("%02d", seq/100%100) }

func folderEntry(name string, id oid) []byte {
	return fmt.Appendf(make([]byte, 0, 32), "40000 %s\x00%s", name, id[:])
}

// run is one check of one line in git (section 8).
type run struct {
	*line
	objects      *objects
	head         oid
	root, middle *folder // that were read last
	derive       deriver
	deriving     bool
	jobs         []request // objects that must be there, not yet asked for
	asked        []*group  // jobs

	// With walk, the commits are read from the head back: actual is those from the head to the one of the place reached,
	// which names the commit before. Without, all that is derived must be there, and lead to the head.
	walk    bool
	actual  []oid
	reached int64
	before  *oid
}

// checkLine checks a line in git: by the shortcut of section 8 or, if that does not lead to the head, walking.
func checkLine(objects *objects, f ref, o *options) *line {
	if !f.holds {
		l := newLine(newReport(f.name, ""), o.trust)
		l.add("wrong-ref", 0, "")
		return l
	}
	var r *run
	for _, walk := range []bool{false, true} {
		l := newLine(newReport(f.name, f.id.String()), o.trust)
		r = &run{line: l, objects: objects, head: f.id, deriving: true, walk: walk}
		if r.check() {
			break
		}
	}
	if r.session != "" && (encode(r.session) != f.session || encode(r.branch) != f.branch) {
		r.add("wrong-ref", 0, f.id.String())
	}
	r.end(o)
	return r.line
}

// What is asked for in advance, so that no goroutine has to wait for another at each step.
const leavesAhead, groupsAhead = 4, 16

// check is false if the shortcut does not lead to the head.
func (r *run) check() bool {
	var c commit
	code := attempt(func() {
		// This one is read with git in any case: what is no repository to git has no objects.
		c = readCommit(r.objects.settle(&request{kind: "commit", id: r.head}))
	})
	if code != "" {
		r.add(code, 0, r.head.String())
		return true
	}
	r.headSeq, _ = strconv.ParseInt(c.seq, 10, 64)
	r.root = r.readTree(c.tree)
	if r.walk {
		r.walkBack()
	}
	var leaves []*leaf
	for first, opened := int64(0), int64(0); first <= r.headSeq && !r.full(); first += 100 {
		for ; opened <= min(first+leavesAhead*100, r.headSeq); opened += 100 {
			leaves = append(leaves, r.openLeaf(opened))
		}
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
		var raw []byte
		code := attempt(func() { raw = r.objects.read("commit", *id) })
		if code == "missing-object" && len(r.actual) > 0 && r.isShallow(r.actualAt(r.reached)) {
			r.leftOut = seq
			return
		} else if code != "" {
			r.add(code, seq, id.String())
			return
		}
		r.actual = append(r.actual, *id)
		r.reached, r.before = seq, parentOf(raw)
		if seq == 1 && r.before != nil {
			r.add("bad-commit", 1, r.before.String())
		} else if seq > 1 && r.before == nil {
			r.add("bad-commit", seq, id.String())
		}
		if seq == 1 || r.before == nil {
			return
		}
	}
}

func (r *run) actualAt(seq int64) oid { return r.actual[r.headSeq-seq] }

// isShallow tells whether the history is cut behind a commit, as the file shallow says.
func (r *run) isShallow(id oid) (found bool) {
	eachLine(filepath.Join(r.objects.git.dir, "shallow"), func(line string) { found = found || line == id.String() })
	return found
}

// folder is a tree that was read: its folders, or the code that says why there are none.
type folder struct {
	id, code string
	raw      []byte
	folders  map[string]oid
}

func (r *run) readTree(id oid) *folder {
	f := &folder{id: id.String(), folders: map[string]oid{}}
	f.code = attempt(func() {
		f.raw = r.objects.read("tree", id)
		treeEntries(f.raw, func(mode, name []byte, id oid) {
			// Of two folders of one name the first one counts; comparing finds the fault.
			if _, there := f.folders[string(name)]; !there && string(mode) == "40000" {
				f.folders[string(name)] = id
			}
		})
	})
	return f
}

// open reads a folder of a folder. If the upper one cannot be read, that is what is wrong with this one too.
func (r *run) open(upper *folder, name string) *folder {
	id, there := upper.folders[name]
	switch {
	case upper.code != "":
		return upper
	case !there:
		return &folder{code: "missing-object"}
	}
	return r.readTree(id)
}

// leaf is a leaf tree, whose events have been asked for.
type leaf struct {
	*folder           // with a code, if it has no places
	first, begin, end int64
	places            *[100]place
	events            *group
}

func (r *run) openLeaf(first int64) *leaf {
	if first%10000 == 0 {
		r.middle = r.open(r.root, rootName(first))
	}
	l := &leaf{first: first, begin: max(first, 1), end: min(first+100, r.headSeq+1)}
	if l.folder = r.open(r.middle, middleName(first)); l.code != "" {
		return l
	}
	if l.code = attempt(func() { l.places = readLeaf(l.raw, first) }); l.code != "" {
		return l
	}
	var wanted []request
	for seq := l.begin; seq < l.end; seq++ {
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
	}
	for r.seq = l.begin; r.seq < l.end; r.seq++ {
		if l.code != "" {
			r.lose("")
			r.deriving = false
		} else {
			r.checkPlace(l, &l.places[r.seq-l.first])
		}
	}
	r.asked = append(r.asked, r.objects.ask(r.jobs))
	r.jobs = make([]request, 0, 400)
}

// checkPlace checks the event at r.seq.
func (r *run) checkPlace(l *leaf, p *place) {
	var e event
	r.id = ""
	code := attempt(func() {
		must(p.there, "missing-object")
		r.id = p.blob.String()
		e = r.json.event(r.objects.settle(l.events.take()))
	})
	if code != "" {
		r.lose(code)
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
	numbered := make([]request, len(e.files))
	for _, one := range p.files {
		// As no name is there twice, so many numbers that are not too high are all of them.
		k, _ := strconv.Atoi(one.number)
		if good = good && k <= len(numbered); good {
			numbered[k-1] = request{seq: r.seq, kind: "blob", id: one.id, file: &e.files[k-1]}
		}
	}
	if !good {
		r.add("bad-file", r.seq, string(r.prev))
		return
	}
	r.jobs = append(r.jobs, numbered...)
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
			if code := attempt(func() { r.checkSigned(e, actual, derived[3].expected) }); code != "" {
				r.add(code, e.seq, actual.String())
				r.deriving = false
				return
			}
		}
		r.derive.parent = &actual
		wanted = derived[:3]
	}
	r.jobs = append(r.jobs, wanted...)
}

// checkSigned: a commit whose id is not the derived one must be that one with a signature, which is checked.
func (r *run) checkSigned(e *event, actual oid, derived []byte) {
	raw := r.objects.read("commit", actual)
	c := readCommit(raw)
	head, body, _ := bytes.Cut(derived, []byte("\n\n"))
	if len(c.header) > 0 && string(raw) == fmt.Sprintf("%s\n%s\n%s", head, c.header, body) {
		s := signed{"git", derived, r.derive.time, e.seq}
		r.signature(r.trust, s, c.block, nil, e.seq, actual.String())
		return
	}
	must(c.hash == string(r.prev), "bad-hash")
	same := c.seq == strconv.FormatInt(e.seq, 10) && c.session == string(e.session) && c.kind == string(e.kind)
	must(same, "bad-commit")
	must(false, "bad-tree")
}

// checkJobs looks at the answers to jobs, but for so many groups.
func (r *run) checkJobs(left int) {
	for ; len(r.asked) > left; r.asked = r.asked[1:] {
		for g := r.asked[0]; len(g.requests) > 0; {
			q := g.take()
			if code := attempt(func() { r.objects.settle(q) }); code != "" {
				r.add(code, q.seq, q.id.String())
				r.deriving = r.deriving && (r.walk || q.file != nil)
			} else if q.file != nil {
				r.sideFiles++
			}
		}
	}
}
