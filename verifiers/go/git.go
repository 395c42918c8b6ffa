package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
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

// objectID computes the id of an object.
func objectID(kind string, data []byte) (id oid) {
	var header [32]byte
	sha := sha1.New()
	sha.Write(append(strconv.AppendInt(append(append(header[:0], kind...), ' '), int64(len(data)), 10), 0))
	sha.Write(data)
	sha.Sum(id[:0])
	return id
}

// The largest objects that are read, and the codes of larger ones (section 4).
var (
	largest = map[string]int64{"commit": 64 << 10, "tree": 16 << 20, "blob": maxEvent}
	tooBig  = map[string]string{"commit": "bad-commit", "tree": "bad-tree", "blob": "bad-member"}
)

// git reads objects with one child, which is started when it is needed, and again when it has ended or an answer was not
// good (section 4). It is asked for one object at a time: most are found without it (pack.go).
type git struct {
	dir     string
	child   *exec.Cmd
	asking  io.Writer
	output  *marked // of the child
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
	if more := len(m.last) - len(m.mark); more > 0 {
		m.last = append(m.last[:0], m.last[more:]...)
	}
	return n, err
}

func newGit(dir string) (*git, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, err
	}
	var chance oid
	_, err := rand.Read(chance[:])
	return &git{dir: dir, output: &marked{mark: []byte(chance.String() + " missing\n")}, answers: bufio.NewReaderSize(nil, 64<<10)}, err
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
		g.asking, g.output.in = io.Discard, strings.NewReader("") // answers nothing, like a child that has ended
	} else {
		g.asking, g.output.in = stdin, stdout
	}
	g.answers.Reset(g.output)
}

// stop ends the child.
func (g *git) stop() {
	if g.child != nil && g.child.Process != nil {
		g.child.Process.Kill()
		g.child.Wait()
	}
	g.child = nil
}

// read gives the bytes of an object. It is good, or code says why not.
func (g *git) read(kind string, id oid) (data []byte, code string) {
	var out bytes.Buffer
	if _, code = g.copy(&out, kind, id, largest[kind]); code != "" {
		return nil, code
	}
	return out.Bytes(), ""
}

// copy writes the bytes of an object. It is good, or code says why not; then what was written is of no worth.
func (g *git) copy(to io.Writer, kind string, id oid, most int64) (size int64, code string) {
	if g.child == nil {
		g.start()
	}
	g.output.last = g.output.last[:0]
	fmt.Fprintf(g.asking, "contents %s\ncontents %s\nflush\n", id, g.output.mark[:2*len(id)])
	size, code = g.receive(to, kind, id, most)
	// A loose blob that holds more than its header says is printed as a whole, and must not speak for other objects.
	if end, _ := g.answers.ReadSlice('\n'); !bytes.Equal(end, g.output.mark) {
		g.stop()
		if code == "" {
			code = "bad-object"
		}
	}
	return size, code
}

func (g *git) receive(to io.Writer, kind string, id oid, most int64) (size int64, code string) {
	line, err := g.answers.ReadSlice('\n')
	rest, named := bytes.CutPrefix(line, []byte(id.String()+" "))
	if err != nil || !named {
		return 0, "bad-object"
	}
	if string(rest) == "missing\n" {
		return 0, "missing-object"
	}
	said, length, _ := bytes.Cut(bytes.TrimSuffix(rest, []byte("\n")), []byte(" "))
	size, err = strconv.ParseInt(string(length), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // size is then the largest number
	}
	if err != nil || string(said) != kind {
		return 0, "bad-object"
	}
	if size > most {
		return 0, tooBig[kind]
	}
	sha := sha1.New()
	fmt.Fprintf(sha, "%s %d\x00", kind, size)
	_, err = io.CopyN(io.MultiWriter(sha, to), g.answers, size)
	end, _ := g.answers.ReadByte()
	if err != nil || end != '\n' || oid(sha.Sum(nil)) != id {
		return 0, "bad-object"
	}
	return size, ""
}
