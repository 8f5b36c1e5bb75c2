package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/history/cas"
)

// memory has contents.
type memory map[cas.Hash][]byte

func (m memory) Bytes(h cas.Hash, _ int64) ([]byte, error) { return m[h], nil }

func (m memory) put(b []byte) string {
	h := cas.Sum(b)
	m[h] = b
	return h.String()
}

// names are such that the order of bytes is not that of a walk: "d!", "d-x" and "d.c" are between "d" and "d/a".
var names = []string{"a", "b\\", "b\n", "d", "d!", "d-x", "d/a", "d/e", "d/e/f", "d/e/g", "d.c", "d0", "g", "g/h", "g/h/i", "z"}

// states draws a well-formed state: what is above an entry is a directory.
func states(t *rapid.T, label string) *Manifest {
	m := &Manifest{}
	for _, name := range names {
		under := true
		for _, dir := range parents(name) {
			e := m.Find(dir)
			under = under && e != nil && e.Kind == Dir
		}
		if !under || rapid.IntRange(0, 2).Draw(t, label+" has "+name) == 0 {
			continue
		}
		e := Entry{Path: name, Mode: uint32(rapid.IntRange(0o700, 0o702).Draw(t, label+" mode"))}
		switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
		case 0:
			e.Kind = Dir
		case 1:
			e.Kind, e.Mode = Link, 0
		default:
			e.Kind = File
		}
		if e.Kind != Dir {
			e.Hash, e.Size = cas.Sum([]byte{byte(rapid.IntRange(0, 2).Draw(t, label+" content"))}), 1
		}
		m.Entries = append(m.Entries, e)
		m.Sort()
	}
	return m
}

// between returns a delta from a state to another, with more in it than differs, as checkpoints have.
func between(t *rapid.T, label string, from, to *Manifest) *Delta {
	cleared, own := map[string]bool{}, map[string]bool{}
	for _, c := range Diff(from, to) {
		if c.To == nil || c.How == Type || c.To.Kind != Dir && rapid.Bool().Draw(t, label+" clears") {
			cleared[c.Path] = true
		}
		own[c.Path] = c.To != nil
	}
	for _, name := range names {
		if rapid.IntRange(0, 4).Draw(t, label+" extra") == 0 {
			cleared[name] = true
		}
	}
	d := &Delta{Cleared: ordered(cleared)}
	for i := range to.Entries {
		if e := &to.Entries[i]; own[e.Path] || atOrBelow(cleared, e.Path) || rapid.IntRange(0, 4).Draw(t, label+" repeats") == 0 {
			d.Entries = append(d.Entries, *e)
		}
	}
	require.Equal(t, to.Encode(), d.Apply(from).Encode())
	return d
}

// TestAPlanByDifferencesIsThatOfWholeLists: the part of a list around the deltas decides as all of it does.
func TestAPlanByDifferencesIsThatOfWholeLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, now, want := states(t, "base"), states(t, "now"), states(t, "want")
		a, b := between(t, "now", base, now), between(t, "want", base, want)
		paths := rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{"no", "d/no"}, names...)), 0, 3, rapid.ID).Draw(t, "paths")
		whole, werr := Plan(now, want, paths)

		store := memory{}
		l, err := LoadListing(store, store.put(base.Encode()))
		require.NoError(t, err)
		all, err := l.Manifest()
		require.NoError(t, err)
		require.Equal(t, base.Encode(), all.Encode())
		part, err := l.Around(paths, a, b)
		require.NoError(t, err)
		steps, err := Plan(a.Apply(part), b.Apply(part), paths)
		if werr != nil {
			require.EqualError(t, err, werr.Error())
			return
		}
		require.NoError(t, err)
		require.Equal(t, whole, steps)
	})
}

// TestAPartOfAListHasOnlyWhatIsNeeded: otherwise the comparison costs as much as all of it.
func TestAPartOfAListHasOnlyWhatIsNeeded(t *testing.T) {
	m := &Manifest{}
	for _, name := range []string{"a", "d", "d/a", "d/b", "e", "e/f", "e/f/g", "x"} {
		m.Entries = append(m.Entries, Entry{Path: name, Kind: Dir, Mode: 0o755})
	}
	store := memory{}
	l, err := LoadListing(store, store.put(m.Encode()))
	require.NoError(t, err)
	part, err := l.Around([]string{"x", "zz"}, &Delta{Cleared: []string{"e/f"}}, &Delta{Entries: []Entry{{Path: "d/a"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"d", "d/a", "e", "e/f", "e/f/g", "x"}, (&Delta{Entries: part.Entries}).Paths())
}

func TestAListThatIsDamagedIsNotRead(t *testing.T) {
	store := memory{}
	for _, text := range []string{"", "polis-snapshot 2\n", header + "f 0644 cut", header + "f 0644 - 0 -\n", header + "f 0644 - 0 - a\\x\n"} {
		l, err := LoadListing(store, store.put([]byte(text)))
		if err == nil {
			_, err = l.Around([]string{"a"})
		}
		require.ErrorContains(t, err, "manifest", "%q", text)
	}
}
