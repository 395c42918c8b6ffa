package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// oid is the id of a git object.
type oid [20]byte

func (id oid) String() string { return hex.EncodeToString(id[:]) }

func appendHex(text, raw []byte) []byte {
	text = append(text, make([]byte, 2*len(raw))...)
	hex.Encode(text[len(text)-2*len(raw):], raw)
	return text
}

// The largest objects that are read, and the codes of larger ones (section 4).
var (
	largest = map[string]int64{"commit": 64 << 10, "tree": 16 << 20, "blob": maxEvent}
	tooBig  = map[string]string{"commit": "bad-commit", "tree": "bad-tree", "blob": "bad-member"}
)

// git reads objects with one child, which is started when it is needed, and again when it has ended or an answer was not
// good (section 4). What was asked for is answered in its order.
type git struct {
	dir     string
	child   *exec.Cmd
	asking  chan []byte // what is to be written to the child
	output  *marked     // of the child
	answers *bufio.Reader
	mark    oid   // chance in front, then a number
	waiting []oid // asked for and not answered, marks among them
	held    int   // bytes of the last answer that are still at the front of answers
	big     []byte
	sha1    hash.Hash
}

// marked is the output of git. A loose blob whose header says more than it holds is shorter than the size that git
// prints, and whoever waits for the rest waits for ever. So each group ends with an id by chance that no repository can
// hold; when the answer to the last one has come, this is the end, for now.
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
	if more := len(m.last) - len(m.mark); more > 0 {
		m.last = append(m.last[:0], m.last[more:]...)
	}
	return n, err
}

func newGit(dir string) (*git, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, err
	}
	g := &git{dir: dir, sha1: sha1.New(), output: &marked{}, answers: bufio.NewReaderSize(nil, 256<<10)}
	_, err := rand.Read(g.mark[:16])
	return g, err
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
	stdin, err1 := g.child.StdinPipe()
	stdout, err2 := g.child.StdoutPipe()
	if err1 != nil || err2 != nil || g.child.Start() != nil {
		stdin, stdout = nil, io.NopCloser(strings.NewReader("")) // answers nothing, like a child that has ended
	}
	*g.output = marked{in: stdout}
	g.answers.Reset(g.output)
	g.held = 0
	g.asking = make(chan []byte, 64)
	// It writes in its own goroutine: git may want to be read before it reads on.
	go func(requests <-chan []byte) {
		for text := range requests {
			if stdin != nil {
				stdin.Write(text)
			}
		}
	}(g.asking)
}

// stop ends the child and forgets what it was asked for.
func (g *git) stop() {
	g.waiting = nil
	if g.child != nil {
		if g.child.Process != nil {
			g.child.Process.Kill()
			g.child.Wait()
		}
		close(g.asking)
		g.child = nil
	}
}

// again starts a new child for what has not been answered.
func (g *git) again() {
	var ids []oid
	for _, id := range g.waiting {
		if !g.isMark(id) {
			ids = append(ids, id)
		}
	}
	g.stop()
	g.ask(ids...)
}

func (g *git) isMark(id oid) bool { return bytes.Equal(id[:16], g.mark[:16]) }

// ask requests objects, as one group. No more than about 1,000 should wait.
func (g *git) ask(ids ...oid) {
	if len(ids) == 0 {
		return
	}
	if g.child == nil {
		g.start()
	}
	binary.BigEndian.PutUint32(g.mark[16:], binary.BigEndian.Uint32(g.mark[16:])+1)
	g.output.mark = append(appendHex(nil, g.mark[:]), " missing\n"...)
	waiting := len(g.waiting)
	g.waiting = append(append(g.waiting, ids...), g.mark)
	text := make([]byte, 0, 50*len(ids)+56)
	for i := range g.waiting[waiting:] {
		text = append(appendHex(append(text, "contents "...), g.waiting[waiting+i][:]), '\n')
	}
	g.asking <- append(text, "flush\n"...)
}

// header reads the first line of the next answer without the id that it begins with.
func (g *git) header() (id oid, rest []byte, good bool) {
	g.answers.Discard(g.held)
	g.held = 0
	id, g.waiting = g.waiting[0], g.waiting[1:]
	line, err := g.answers.ReadSlice('\n')
	begin := append(appendHex(nil, id[:]), ' ')
	if err != nil || !bytes.HasPrefix(line, begin) {
		return id, nil, false
	}
	return id, line[len(begin) : len(line)-1], true
}

// next gives id and size of the next object; a code if git does not have one of this type.
func (g *git) next(want string) (id oid, size int64, code string) {
	for g.isMark(g.waiting[0]) {
		if _, _, good := g.header(); !good {
			g.again()
		}
	}
	id, rest, good := g.header()
	if good && string(rest) == "missing" {
		return id, 0, "missing-object"
	}
	kind, length, _ := bytes.Cut(rest, []byte(" "))
	size, err := strconv.ParseInt(string(length), 10, 64)
	if err != nil || string(kind) != want {
		return id, 0, g.bad()
	}
	return id, size, ""
}

// bad is for an object that is not good. What comes behind it need not begin where it should.
func (g *git) bad() string {
	g.again()
	return "bad-object"
}

// answer reads the object asked for first. It is good, or code says why not. data lives until the next call. If data
// equals expected, which has this id, that is as good as hashing it.
func (g *git) answer(kind string, expected []byte) (data []byte, code string) {
	id, size, code := g.next(kind)
	if code != "" {
		return nil, code
	}
	if size > largest[kind] {
		g.again()
		return nil, tooBig[kind]
	}
	length := int(size) + 1 // a newline comes behind it
	var rest []byte
	if length+idLength <= g.answers.Size() {
		data, _ = g.answers.Peek(length + idLength)
		g.held = length
		if len(data) > length {
			data, rest = data[:length], data[length:]
		}
	} else {
		if cap(g.big) < length {
			g.big = make([]byte, length)
		}
		n, _ := io.ReadFull(g.answers, g.big[:length])
		data = g.big[:n]
		rest, _ = g.answers.Peek(idLength)
	}
	if len(data) < length || data[size] != '\n' || !g.isNext(rest) {
		return nil, g.bad()
	}
	data = data[:size]
	if (expected == nil || !bytes.Equal(data, expected)) && g.id(kind, data) != id {
		return nil, g.bad()
	}
	return data, ""
}

const idLength = 2 * len(oid{})

// isNext tells whether an answer is followed by the next one (a mark at least), or by nothing because git has ended. A
// loose blob that holds more than its header says is printed as a whole, and must not speak for other objects.
func (g *git) isNext(rest []byte) bool {
	return bytes.HasPrefix(appendHex(nil, g.waiting[0][:]), rest)
}

// digest reads the blob asked for first, of any size, and gives its size and SHA-256.
func (g *git) digest() (read file, code string) {
	id, size, code := g.next("blob")
	if code != "" {
		return read, code
	}
	g.sha1.Reset()
	fmt.Fprintf(g.sha1, "blob %d\x00", size)
	sha := sha256.New()
	_, err := io.CopyN(io.MultiWriter(g.sha1, sha), g.answers, size)
	end, _ := g.answers.ReadByte()
	rest, _ := g.answers.Peek(idLength)
	var actual oid
	g.sha1.Sum(actual[:0])
	if err != nil || end != '\n' || actual != id || !g.isNext(rest) {
		return read, g.bad()
	}
	return file{size, hex.EncodeToString(sha.Sum(nil))}, ""
}

// read asks for one object and reads it. Nothing else may wait.
func (g *git) read(kind string, id oid) ([]byte, string) {
	g.ask(id)
	return g.answer(kind, nil)
}

// id computes the id of an object.
func (g *git) id(kind string, data []byte) (id oid) {
	var header [32]byte
	g.sha1.Reset()
	g.sha1.Write(append(strconv.AppendInt(append(append(header[:0], kind...), ' '), int64(len(data)), 10), 0))
	g.sha1.Write(data)
	g.sha1.Sum(id[:0])
	return id
}
