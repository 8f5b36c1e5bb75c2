package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Listing is a stored manifest of which entries are read as they are needed: two states of a large tree
// that are a few changes to the same list are compared without the rest of it.
type Listing struct {
	text  []byte // with the header
	lines []byte
}

// LoadListing reads a stored manifest, and compares it with its hash.
func LoadListing(from objects, manifest string) (*Listing, error) {
	b, err := stored(from, manifest)
	if err != nil {
		return nil, err
	}
	lines, ok := bytes.CutPrefix(b, []byte(header))
	if !ok {
		return nil, errors.New("manifest: it is not of version 1")
	}
	return &Listing{text: b, lines: lines}, nil
}

// LoadDelta reads a stored delta; an empty one for "".
func LoadDelta(from objects, delta string) (*Delta, error) {
	if delta == "" {
		return &Delta{}, nil
	}
	b, err := stored(from, delta)
	if err != nil {
		return nil, err
	}
	return ParseDelta(b)
}

// Manifest returns all entries.
func (l *Listing) Manifest() (*Manifest, error) { return Parse(l.text) }

// Around returns the entries that differ once deltas are applied, or could: those that a delta names, all
// below what one clears, those of paths, and the directories above all of these. The states that deltas
// make of it differ where, and as, those that they make of the whole list do, and so do their plans for
// paths.
func (l *Listing) Around(paths []string, deltas ...*Delta) (*Manifest, error) {
	found := map[string]bool{}
	out := &Manifest{}
	one := func(p string) error {
		if found[p] {
			return nil
		}
		found[p] = true
		at, err := l.search(p)
		if err != nil || at == len(l.lines) {
			return err
		}
		e, _, err := l.entry(at)
		if err == nil && e.Path == p {
			out.Entries = append(out.Entries, e)
		}
		return err
	}
	withParents := func(p string) error {
		for _, dir := range parents(p) {
			if err := one(dir); err != nil {
				return err
			}
		}
		return one(p)
	}
	for _, p := range paths {
		if err := withParents(p); err != nil {
			return nil, err
		}
	}
	for _, d := range deltas {
		for i := range d.Entries {
			if err := withParents(d.Entries[i].Path); err != nil {
				return nil, err
			}
		}
		for _, p := range d.Cleared {
			if err := withParents(p); err != nil {
				return nil, err
			}
			if err := l.below(p, found, out); err != nil {
				return nil, err
			}
		}
	}
	out.Sort()
	return out, nil
}

// below adds the entries below a directory.
func (l *Listing) below(dir string, found map[string]bool, out *Manifest) error {
	at, err := l.search(dir + "/")
	for err == nil && at < len(l.lines) {
		var e Entry
		if e, at, err = l.entry(at); err != nil || !strings.HasPrefix(e.Path, dir+"/") {
			break
		}
		if !found[e.Path] {
			found[e.Path] = true
			out.Entries = append(out.Entries, e)
		}
	}
	return err
}

// search returns where the first line begins whose path is not before path.
func (l *Listing) search(path string) (int, error) {
	lo, hi := 0, len(l.lines)
	for lo < hi {
		start := lo + bytes.LastIndexByte(l.lines[lo:(lo+hi)/2], '\n') + 1
		line, next, err := l.line(start)
		if err != nil {
			return 0, err
		}
		f := bytes.SplitN(line, []byte{' '}, 6)
		if len(f) != 6 {
			return 0, errors.New("manifest: a line does not have six fields")
		}
		p, err := readPath(string(f[5]))
		if err != nil {
			return 0, fmt.Errorf("manifest: %w", err)
		}
		if p < path {
			lo = next
		} else {
			hi = start
		}
	}
	return lo, nil
}

// line returns the line that begins at an offset, and where the next one does.
func (l *Listing) line(at int) ([]byte, int, error) {
	n := bytes.IndexByte(l.lines[at:], '\n')
	if n < 0 {
		return nil, 0, errors.New("manifest: it is cut short")
	}
	return l.lines[at : at+n], at + n + 1, nil
}

func (l *Listing) entry(at int) (Entry, int, error) {
	line, next, err := l.line(at)
	if err != nil {
		return Entry{}, 0, err
	}
	e, err := parseLine(string(line))
	if err != nil {
		err = fmt.Errorf("manifest: %w", err)
	}
	return e, next, err
}

// Size is the number of bytes of the list.
func (l *Listing) Size() int { return len(l.text) }
