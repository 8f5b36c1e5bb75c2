package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Delta is how a tree differs from an earlier state of it.
type Delta struct {
	// Cleared are paths at and below which nothing of the earlier state is left: what is there now is in
	// Entries.
	Cleared []string
	// Entries are in the order of the bytes of their paths.
	Entries []Entry
}

const deltaHeader = "polis-delta 1\n"

// Apply returns the state that d makes of from.
func (d *Delta) Apply(from *Manifest) *Manifest {
	cleared := set(d.Cleared)
	own := make(map[string]bool, len(d.Entries))
	for i := range d.Entries {
		own[d.Entries[i].Path] = true
	}
	out := &Manifest{Entries: make([]Entry, 0, len(from.Entries)+len(d.Entries))}
	for i := range from.Entries {
		if e := &from.Entries[i]; !own[e.Path] && !atOrBelow(cleared, e.Path) {
			out.Entries = append(out.Entries, *e)
		}
	}
	out.Entries = append(out.Entries, d.Entries...)
	out.Sort()
	return out
}

// Then returns the delta that has the effect of d and then of next.
func (d *Delta) Then(next *Delta) *Delta {
	kept := next.Apply(&Manifest{Entries: d.Entries})
	cleared := set(d.Cleared)
	for _, p := range next.Cleared {
		cleared[p] = true
	}
	return &Delta{Cleared: ordered(cleared), Entries: kept.Entries}
}

// Paths returns what the delta changes, in order.
func (d *Delta) Paths() []string {
	all := set(d.Cleared)
	for i := range d.Entries {
		all[d.Entries[i].Path] = true
	}
	return ordered(all)
}

// Encode returns the text of a delta: a header, a line "- PATH" for each cleared path, and then the
// lines of a manifest.
func (d *Delta) Encode() []byte {
	out := []byte(deltaHeader)
	for _, p := range d.Cleared {
		out = append(appendPath(append(out, "- "...), p), '\n')
	}
	return append(out, (&Manifest{Entries: d.Entries}).Encode()...)
}

// ParseDelta reads what Encode wrote, and nothing else.
func ParseDelta(b []byte) (*Delta, error) {
	rest, ok := bytes.CutPrefix(b, []byte(deltaHeader))
	if !ok {
		return nil, errors.New("delta: it is not of version 1")
	}
	d := &Delta{}
	for {
		line, more, ok := bytes.Cut(rest, []byte{'\n'})
		escaped, cleared := strings.CutPrefix(string(line), "- ")
		if !cleared {
			break
		}
		if !ok {
			return nil, errors.New("delta: it is cut short")
		}
		p, err := readPath(escaped)
		if err == nil {
			err = CheckPath(p)
		}
		if n := len(d.Cleared); err == nil && n > 0 && d.Cleared[n-1] >= p {
			err = fmt.Errorf("path %.200q is not in order", p)
		}
		if err != nil {
			return nil, fmt.Errorf("delta: %w", err)
		}
		d.Cleared, rest = append(d.Cleared, p), more
	}
	m, err := Parse(rest)
	if err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	d.Entries = m.Entries
	return d, nil
}

func set(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, p := range list {
		out[p] = true
	}
	return out
}

func ordered(all map[string]bool) []string {
	out := make([]string, 0, len(all))
	for p := range all {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func atOrBelow(dirs map[string]bool, path string) bool {
	if len(dirs) == 0 {
		return false
	}
	if dirs[path] {
		return true
	}
	for i := range len(path) {
		if path[i] == '/' && dirs[path[:i]] {
			return true
		}
	}
	return false
}
