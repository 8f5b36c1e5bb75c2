package pathset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// MaxEntries bounds a set: paths and directories together. A larger one is All.
const MaxEntries = 8 << 20

// MaxSize is the size in bytes of the largest file that Parse takes.
const MaxSize = int64(len(magic) + 8*MaxEntries)

const (
	magic    = "polis-paths-1\n\x00\x00"
	magicAll = "polis-paths-*\n\x00\x00" // everything is in it
)

// ErrFormat is what Parse has against a file.
var ErrFormat = errors.New("not a set of paths")

// hash is FNV-1a. An agent that finds two paths with one hash gains no more than by having both
// in the set.
func hash(path string, dir bool) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(path) {
		h = (h ^ uint64(path[i])) * 1099511628211
	}
	if dir {
		h = (h ^ '/') * 1099511628211
	}
	return h
}

// Builder collects paths.
type Builder struct {
	hashes []uint64
	last   string // directory of the path before: git lists sorted
	all    bool
}

// Add puts a path into the set: relative, slash separated, clean.
func (b *Builder) Add(path string) {
	if b.all {
		return
	}
	if len(b.hashes) >= 2*MaxEntries {
		b.compact()
	}
	b.hashes = append(b.hashes, hash(path, false))
	dir := parent(path)
	if dir == b.last {
		return
	}
	b.last = dir
	for ; dir != ""; dir = parent(dir) {
		b.hashes = append(b.hashes, hash(dir, true))
	}
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// AddAll puts in what another builder has.
func (b *Builder) AddAll(o *Builder) {
	b.all = b.all || o.all
	b.hashes = append(b.hashes, o.hashes...)
	b.compact()
}

func (b *Builder) compact() {
	slices.Sort(b.hashes)
	b.hashes = slices.Compact(b.hashes)
	if len(b.hashes) > MaxEntries {
		b.hashes, b.all = nil, true
	}
}

// Bytes is the set as Parse reads it.
func (b *Builder) Bytes() []byte {
	b.compact()
	if b.all {
		return []byte(magicAll)
	}
	out := make([]byte, 0, len(magic)+8*len(b.hashes))
	out = append(out, magic...)
	for _, h := range b.hashes {
		out = binary.BigEndian.AppendUint64(out, h)
	}
	return out
}

// Set is a set of paths.
type Set struct {
	sorted []byte // hashes, big endian
	all    bool
}

// Parse reads a set. It keeps b.
func Parse(b []byte) (*Set, error) {
	if bytes.Equal(b, []byte(magicAll)) {
		return &Set{all: true}, nil
	}
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok || len(rest)%8 != 0 || len(rest)/8 > MaxEntries {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(b))
	}
	return &Set{sorted: rest}, nil
}

// Has reports whether the path is in the set.
func (s *Set) Has(path string) bool { return s.all || s.find(hash(path, false)) }

// Below reports whether something below the directory is in the set.
func (s *Set) Below(dir string) bool { return s.all || s.find(hash(dir, true)) }

func (s *Set) find(h uint64) bool {
	n := len(s.sorted) / 8
	i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint64(s.sorted[8*i:]) >= h })
	return i < n && binary.BigEndian.Uint64(s.sorted[8*i:]) == h
}
