package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"
)

// readID reads 40 lower-case hex digits.
func readID(text string) (id oid, good bool) {
	if !consists([]byte(text), 40, 40, &hexSet) {
		return id, false
	}
	hex.Decode(id[:], []byte(text))
	return id, true
}

// ref is a ref that is a line: its session and branch, encoded. holds is false if it holds no commit id.
type ref struct {
	name, session, branch string
	id                    oid
	holds                 bool
}

// maxGitFile is the largest packed-refs and shallow (section 5).
const maxGitFile = 256 << 20

// readRefs reads the refs of a repository from its files (section 5), sorted by name, and counts the foreign ones.
func readRefs(dir string) (lines []ref, foreign int, err error) {
	for _, name := range []string{"packed-refs", "shallow"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() && info.Size() > maxGitFile {
			return nil, 0, errors.New(name + " is too large")
		}
	}
	held := map[string]string{} // by ref, what it holds
	eachLine(filepath.Join(dir, "packed-refs"), func(line string) {
		id, name, _ := strings.Cut(line, " ")
		_, isID := readID(id)
		if isID && (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/remotes/")) {
			held[name] = id
		}
	})
	for _, name := range []string{"refs/heads", "refs/remotes"} {
		if isDir(filepath.Join(dir, "refs")) && isDir(filepath.Join(dir, name)) && err == nil {
			err = looseRefs(dir, name, held)
		}
	}
	for name, text := range held {
		parts := strings.Split(name, "/")
		depth := map[string]int{"heads": 4, "remotes": 5}[parts[1]]
		if depth == 5 && len(parts) == 4 && parts[2] != "" && parts[3] == "HEAD" {
			continue
		}
		if len(parts) != depth || parts[2] == "" || !isPart(parts[depth-2]) || !isPart(parts[depth-1]) || !utf8.ValidString(name) {
			foreign++
			continue
		}
		id, holds := readID(text)
		lines = append(lines, ref{name, parts[depth-2], parts[depth-1], id, holds})
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i].name < lines[j].name })
	return lines, foreign, err
}

// looseRefs reads the files under a folder.
func looseRefs(dir, under string, held map[string]string) error {
	entries, err := os.ReadDir(filepath.Join(dir, under))
	for _, entry := range entries {
		name := under + "/" + entry.Name()
		if entry.IsDir() {
			if err := looseRefs(dir, name, held); err != nil {
				return err
			}
		} else if !strings.HasSuffix(name, ".lock") {
			held[name] = ""
			file := openRegular(filepath.Join(dir, name))
			if file == nil {
				continue
			}
			text := make([]byte, 42)
			if n, _ := io.ReadFull(file, text); n == 41 && text[40] == '\n' {
				held[name] = string(text[:40])
			}
			file.Close()
		}
	}
	return err
}

// isDir tells whether there is a folder, not a link to one.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
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

// eachLine gives the lines of a regular file without their newlines.
func eachLine(path string, each func(line string)) {
	file := openRegular(path)
	if file == nil {
		return
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, _, err := readLine(lines, nil)
		if err != nil {
			return
		}
		each(string(line))
	}
}

// readLine appends the next line without its newline to a buffer; of one that is longer than an event may be, only so
// much as shows that. complete: it has a newline. An error, if there is no further line.
func readLine(in *bufio.Reader, buffer []byte) (line []byte, complete bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(buffer) <= maxEvent {
			buffer = append(buffer, part...)
		}
		if err == nil {
			return bytes.TrimSuffix(buffer, []byte("\n")), true, nil
		}
		if err != bufio.ErrBufferFull {
			if err == io.EOF && len(buffer) > 0 {
				err = nil
			}
			return buffer, false, err
		}
	}
}
