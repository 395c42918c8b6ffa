package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// oid is the id of a git object.
type oid [20]byte

func (id oid) String() string { return hex.EncodeToString(id[:]) }

// objectID computes the id of an object.
func objectID(kind string, data []byte) (id oid) {
	sha, header := sha1.New(), [32]byte{}
	sha.Write(append(strconv.AppendInt(append(append(header[:0], kind...), ' '), int64(len(data)), 10), 0))
	sha.Write(data)
	sha.Sum(id[:0])
	return id
}

// The largest objects that are read, and the codes of larger ones (section 4).
var (
	largest = map[string]int64{"commit": 64 << 10, "tree": 16 << 20, "blob": maxEvent}
	tooBig  = map[string]broken{"commit": "bad-commit", "tree": "bad-tree", "blob": "bad-member"}
)

// objects reads the objects of a repository. Groups of them are looked for in other goroutines (pack.go), so that this
// goes on beside the rest; git is asked for those that were not found good.
type objects struct {
	git  git
	own  *unpacker
	work chan *group
}

// request is an object that is wanted, and then what was found.
type request struct {
	seq  int64 // of the event that it belongs to
	kind string
	id   oid
	// At most one of these: bytes that have this id, or what an event says of a side file. Then nothing else is wanted
	// but whether the object is so.
	expected []byte
	file     *file

	good bool // found without git
	data []byte
}

// group is a number of requests that are being looked at.
type group struct {
	requests []request
	done     chan struct{}
}

func openObjects(dir string) *objects {
	_, err := exec.LookPath("git")
	sure(err)
	store := openStore(dir)
	o := &objects{git: git{dir: dir}, own: newUnpacker(store), work: make(chan *group, 64)}
	for range min(8, runtime.GOMAXPROCS(0)) {
		go func() {
			u := newUnpacker(store)
			for group := range o.work {
				for i := range group.requests {
					group.requests[i].look(u)
				}
				close(group.done)
			}
		}()
	}
	return o
}

func (o *objects) close() {
	close(o.work)
	o.git.stop()
}

// look looks for an object without git. What has the wanted bytes, or hashes to the wanted id, is good.
func (q *request) look(u *unpacker) {
	if data := u.read(q.kind, q.id); q.expected != nil {
		q.good = bytes.Equal(data, q.expected)
	} else if data != nil && objectID(q.kind, data) == q.id {
		q.good, q.data = true, bytes.Clone(data)
	}
}

// settle gives the object, which must be good. Git is asked for what was not found so; of a side file nothing is kept.
func (o *objects) settle(q *request) []byte {
	if q.file != nil {
		sha, size := sha256.New(), int64(len(q.data))
		if sha.Write(q.data); !q.good {
			size = o.git.copy(sha, q.kind, q.id, math.MaxInt64)
		}
		must((file{size, hex.EncodeToString(sha.Sum(nil))}) == *q.file, "bad-file")
	} else if !q.good {
		var out bytes.Buffer
		o.git.copy(&out, q.kind, q.id, largest[q.kind])
		return out.Bytes()
	}
	return q.data
}

// ask begins to look for objects.
func (o *objects) ask(requests []request) *group {
	g := &group{requests, make(chan struct{})}
	o.work <- g
	return g
}

// take gives the next request of a group, to be settled.
func (g *group) take() *request {
	<-g.done
	q := &g.requests[0]
	g.requests = g.requests[1:]
	return q
}

// read gives one object, which must be good.
func (o *objects) read(kind string, id oid) []byte {
	q := request{kind: kind, id: id}
	q.look(o.own)
	return o.settle(&q)
}

// git reads objects with one child, which is started when it is needed, and again when it has ended or an answer was not
// good (section 4). It is asked for one object at a time: most are found without it.
type git struct {
	dir     string
	child   *exec.Cmd
	asking  io.Writer
	output  marked // of the child
	answers *bufio.Reader
}

// marked is the output of git. A loose blob whose header says more than it holds is shorter than the size that git
// prints, and whoever waits for the rest waits for ever. So after each object git is asked for an id by chance that no
// repository can hold; when the answer to that has come, this is the end, for now.
type marked struct {
	in         io.Reader
	mark, last []byte
}

func (m *marked) Read(into []byte) (int, error) {
	if bytes.Equal(m.last, m.mark) {
		return 0, io.EOF
	}
	n, err := m.in.Read(into)
	m.last = append(m.last, into[:n]...)
	m.last = m.last[max(0, len(m.last)-len(m.mark)):]
	return n, err
}

func (g *git) start() {
	g.child = exec.Command("git", "--git-dir="+g.dir, "--no-replace-objects", "-c", "core.bigFileThreshold=32m",
		"-c", "core.multiPackIndex=false", "cat-file", "--batch-command", "--buffer")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GIT_") {
			g.child.Env = append(g.child.Env, variable)
		}
	}
	g.child.Env = append(g.child.Env, "GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOC_LIMIT=256m")
	var chance oid
	_, err := rand.Read(chance[:])
	stdin, err1 := g.child.StdinPipe()
	stdout, err2 := g.child.StdoutPipe()
	g.asking, g.output = stdin, marked{in: stdout, mark: []byte(chance.String() + " missing\n")}
	if errors.Join(err, err1, err2) != nil || g.child.Start() != nil {
		g.asking, g.output.in = io.Discard, strings.NewReader("") // answers nothing, like a child that has ended
	}
	g.answers = bufio.NewReaderSize(&g.output, 64<<10)
}

// stop ends the child.
func (g *git) stop() {
	if g.child != nil && g.child.Process != nil {
		g.child.Process.Kill()
		g.child.Wait()
	}
	g.child = nil
}

// copy writes the bytes of an object, which must be good; if it is not, what was written is of no worth.
func (g *git) copy(to io.Writer, kind string, id oid, most int64) (size int64) {
	if g.child == nil {
		g.start()
	}
	g.output.last = nil
	g.answers.Reset(&g.output)
	fmt.Fprintf(g.asking, "contents %s\ncontents %s\nflush\n", id, g.output.mark[:2*len(id)])
	code := attempt(func() { size = g.receive(to, kind, id, most) })
	// A loose blob that holds more than its header says is printed as a whole, and must not speak for other objects.
	end, _ := g.answers.ReadSlice('\n')
	ended := bytes.Equal(end, g.output.mark)
	if !ended {
		g.stop()
	}
	must(code == "", broken(code))
	must(ended, "bad-object")
	return size
}

// receive reads one answer and hashes what it writes.
func (g *git) receive(to io.Writer, kind string, id oid, most int64) int64 {
	line, err := g.answers.ReadString('\n')
	must(line != id.String()+" missing\n", "missing-object")
	length, isKind := strings.CutPrefix(strings.TrimSuffix(line, "\n"), id.String()+" "+kind+" ")
	size, err2 := strconv.ParseInt(length, 10, 64)
	must(err == nil && isKind && (err2 == nil || errors.Is(err2, strconv.ErrRange)), "bad-object")
	must(size <= most, tooBig[kind]) // out of range it is the largest number
	sha := sha1.New()
	fmt.Fprintf(sha, "%s %d\x00", kind, size)
	_, err = io.CopyN(io.MultiWriter(sha, to), g.answers, size)
	end, _ := g.answers.ReadByte()
	must(err == nil && end == '\n' && oid(sha.Sum(nil)) == id, "bad-object")
	return size
}

// openRegular opens a regular file; nil for a link, a pipe, and what cannot be opened.
func openRegular(path string) *os.File {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	return file
}

// readFile reads a regular file; nothing of one whose size is 0, as some such files never end.
func readFile(path string, most int64) (text []byte) {
	file := openRegular(path)
	if file == nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() <= most {
		text = make([]byte, info.Size())
	}
	n, _ := io.ReadFull(file, text)
	return text[:n]
}

// eachLine gives the lines of a regular file without their newlines.
func eachLine(path string, each func(line string)) {
	for text := readFile(path, maxGitFile); len(text) > 0; {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		each(string(line))
		text = rest
	}
}
