package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"runtime"
)

// objects reads the objects of a repository. Groups of them are looked for in other goroutines (pack.go), so that this
// goes on beside the rest; git is asked for those that were not found good.
type objects struct {
	git  *git
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
	read file // size and hash of a side file
}

type group struct {
	requests []request
	next     int // of those that were looked at
	done     chan struct{}
	text     []byte
}

func openObjects(dir string) (*objects, error) {
	g, err := newGit(dir)
	if err != nil {
		return nil, err
	}
	o := &objects{git: g, work: make(chan *group, 64)}
	folder := filepath.Join(dir, "objects")
	packs := openPacks(folder)
	if _, err := os.Stat(filepath.Join(dir, "commondir")); err == nil || packs == nil {
		folder, packs = os.DevNull, nil // git finds all
	}
	o.own = newUnpacker(folder, packs)
	for range min(8, runtime.GOMAXPROCS(0)) {
		go func(u *unpacker) {
			for group := range o.work {
				for i := range group.requests {
					group.look(u, &group.requests[i])
				}
				close(group.done)
			}
		}(newUnpacker(folder, packs))
	}
	return o, nil
}

func (o *objects) close() {
	close(o.work)
	o.git.stop()
}

// look looks for an object without git.
func (g *group) look(u *unpacker, q *request) {
	data := u.read(q.kind, q.id)
	switch {
	case data == nil:
	case q.expected != nil:
		q.good = bytes.Equal(data, q.expected)
	case objectID(q.kind, data) != q.id:
	case q.file != nil:
		sum := sha256.Sum256(data)
		q.good, q.read = true, file{int64(len(data)), hex.EncodeToString(sum[:])}
	default:
		g.text = append(g.text, data...)
		q.good, q.data = true, g.text[len(g.text)-len(data):]
	}
}

// ask begins to look for objects.
func (o *objects) ask(requests []request) *group {
	g := &group{requests: requests, done: make(chan struct{})}
	o.work <- g
	return g
}

// answer gives the next object of a group; if it is not good, code says why.
func (o *objects) answer(g *group) (q *request, code string) {
	<-g.done
	q = &g.requests[g.next]
	g.next++
	switch {
	case q.good:
	case q.file != nil:
		sha := sha256.New()
		q.read.size, code = o.git.copy(sha, q.kind, q.id, math.MaxInt64)
		q.read.sha256 = hex.EncodeToString(sha.Sum(nil))
	default:
		q.data, code = o.git.read(q.kind, q.id)
	}
	return q, code
}

// read gives one object; if it is not good, code says why.
func (o *objects) read(kind string, id oid) (data []byte, code string) {
	data = o.own.read(kind, id)
	if data == nil || objectID(kind, data) != id {
		return o.git.read(kind, id)
	}
	return data, ""
}
