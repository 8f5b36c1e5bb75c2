package snapshot

import "strings"

// How two states of a path differ.
const (
	Added    = "added"
	Removed  = "removed"
	Modified = "modified" // the content of a file, or the target of a link
	Mode     = "mode"     // permission bits or extended attributes only
	Type     = "type"     // a file became a link or a directory, or the reverse
)

// Change is one difference between two trees. From and To are nil where the path is missing.
type Change struct {
	Path     string
	How      string
	From, To *Entry
}

// Diff returns how to differs from from, in the order of the paths.
func Diff(from, to *Manifest) []Change {
	var out []Change
	a, b := from.Entries, to.Entries
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Path < b[0].Path:
			out = append(out, Change{Path: a[0].Path, How: Removed, From: &a[0]})
			a = a[1:]
		case len(a) == 0 || b[0].Path < a[0].Path:
			out = append(out, Change{Path: b[0].Path, How: Added, To: &b[0]})
			b = b[1:]
		default:
			if how := differ(&a[0], &b[0]); how != "" {
				out = append(out, Change{Path: a[0].Path, How: how, From: &a[0], To: &b[0]})
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}

func differ(a, b *Entry) string {
	switch {
	case a.Kind != b.Kind:
		return Type
	case a.Hash != b.Hash:
		return Modified
	case a.Mode != b.Mode || a.Attrs != b.Attrs:
		return Mode
	}
	return ""
}

// Within reports whether path is one of paths or below one. No paths select everything.
func Within(path string, paths []string) bool {
	if len(paths) == 0 {
		return true
	}
	for _, p := range paths {
		if path == p || strings.HasPrefix(path, p) && path[len(p)] == '/' {
			return true
		}
	}
	return false
}

// Select returns the manifest with the entries that want selects.
func (m *Manifest) Select(want func(*Entry) bool) *Manifest {
	out := &Manifest{}
	for i := range m.Entries {
		if want(&m.Entries[i]) {
			out.Entries = append(out.Entries, m.Entries[i])
		}
	}
	return out
}

// Find returns the entry of a path, nil if there is none.
func (m *Manifest) Find(path string) *Entry {
	lo, hi := 0, len(m.Entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if m.Entries[mid].Path < path {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(m.Entries) && m.Entries[lo].Path == path {
		return &m.Entries[lo]
	}
	return nil
}
