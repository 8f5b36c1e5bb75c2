package snapshot

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/history/cas"
)

func file(path, content string) Entry {
	return Entry{Path: path, Kind: File, Mode: 0o644, Hash: cas.Sum([]byte(content)), Size: int64(len(content))}
}

func sorted(all ...Entry) *Manifest {
	m := &Manifest{Entries: all}
	m.Sort()
	return m
}

// TestTheContentHashIsThatOfTheSeed: SHA-256 of "path:sha256\n" lines of the sorted paths.
func TestTheContentHashIsThatOfTheSeed(t *testing.T) {
	contents := map[string]string{"b": "", "a/x": "one\n", "a.txt": "two", "a": "", "Z": "three"}
	delete(contents, "a") // a is a directory
	var paths []string
	m := &Manifest{Entries: []Entry{{Path: "a", Kind: Dir, Mode: 0o755}, {Path: "link", Kind: Link, Hash: cas.Sum([]byte("a"))}}}
	for p, c := range contents {
		paths = append(paths, p)
		m.Entries = append(m.Entries, file(p, c))
	}
	m.Sort()
	sort.Strings(paths)
	var text strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&text, "%s:%x\n", p, sha256.Sum256([]byte(contents[p])))
	}
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(text.String()))), m.Content().String())
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", (&Manifest{}).Content().String(), "no file")

	meta := "Z:f:0644\na:d:0755\na.txt:f:0644\na/x:f:0644\nb:f:0644\nlink:l:" + cas.Sum([]byte("a")).String() + "\n"
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(meta))), m.Metadata().String())
}

// TestNoNameLooksLikeTwoFiles: one file whose name has the line of another.
func TestNoNameLooksLikeTwoFiles(t *testing.T) {
	two := sorted(file("a", "x"), file("b", "y"))
	one := sorted(Entry{Path: "a:" + cas.Sum([]byte("x")).String() + "\nb", Kind: File, Mode: 0o644, Hash: cas.Sum([]byte("y"))})
	require.NotEqual(t, two.Content(), one.Content())
	require.NotEqual(t, two.Metadata(), one.Metadata())
	require.NotEqual(t, sorted(file("a\nb", "x")).Content(), sorted(file(`a\nb`, "x")).Content())
	require.NotEqual(t, sorted(file("a:b", "x")).Content(), sorted(file("a", "x")).Content())
}

func entries() *rapid.Generator[*Manifest] {
	return rapid.Custom(func(t *rapid.T) *Manifest {
		m := &Manifest{}
		seen := map[string]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			var parts []string
			for range rapid.IntRange(1, 3).Draw(t, "parts") {
				parts = append(parts, rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', ':', '\\', 'n', '\n', ' ', 'é', 0xff}), 1, 4, -1).Draw(t, "name"))
			}
			e := Entry{Path: strings.Join(parts, "/"), Kind: rapid.SampledFrom([]Kind{File, Dir, Link}).Draw(t, "kind")}
			if seen[e.Path] {
				continue
			}
			seen[e.Path] = true
			if e.Kind != Dir {
				e.Size = int64(rapid.IntRange(0, 1<<40).Draw(t, "size"))
				e.Hash = cas.Sum([]byte(fmt.Sprint(e.Size)))
			}
			if e.Kind != Link {
				e.Mode = uint32(rapid.IntRange(0, 0o7777).Draw(t, "mode"))
				if rapid.Bool().Draw(t, "attributes") {
					e.Attrs = cas.Sum([]byte("attributes"))
				}
			}
			m.Entries = append(m.Entries, e)
		}
		m.Sort()
		return m
	})
}

func TestPropertyAManifestIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := entries().Draw(t, "manifest")
		got, err := Parse(m.Encode())
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.Equal(t, m.Content(), got.Content())
		require.Equal(t, m.Metadata(), got.Metadata())
	})
}

// TestPropertyDifferentTreesHaveDifferentHashes: the two hashes together tell every difference.
func TestPropertyDifferentTreesHaveDifferentHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := entries().Draw(t, "a"), entries().Draw(t, "b")
		for _, m := range []*Manifest{a, b} { // the size follows from the content
			for i := range m.Entries {
				if m.Entries[i].Kind == Dir {
					m.Entries[i].Size = 0
				}
			}
		}
		same := a.Content() == b.Content() && a.Metadata() == b.Metadata()
		require.Equal(t, len(Diff(a, b)) == 0, same)
		require.Empty(t, Diff(a, a))
	})
}

func TestMalformedManifestsAreRefused(t *testing.T) {
	h := cas.Sum(nil).String()
	line := "f 0644 " + h + " 0 - a\n"
	_, err := Parse([]byte(header + line))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty":              "",
		"another version":    "polis-snapshot 2\n",
		"cut short":          header + line[:len(line)-1],
		"out of order":       header + "d 0755 - 0 - b\nd 0755 - 0 - a\n",
		"twice":              header + line + line,
		"absolute":           header + "d 0755 - 0 - /a\n",
		"leaves the tree":    header + "d 0755 - 0 - a/../../b\n",
		"a dot":              header + "d 0755 - 0 - ./a\n",
		"empty path":         header + "d 0755 - 0 - \n",
		"NUL":                header + "d 0755 - 0 - a\x00b\n",
		"unknown kind":       header + "p 0644 - 0 - a\n",
		"large mode":         header + "d 8755 - 0 - a\n",
		"mode of five":       header + "d 00755 - 0 - a\n",
		"file without hash":  header + "f 0644 - 0 - a\n",
		"directory with one": header + "d 0755 " + h + " 0 - a\n",
		"upper case":         header + "f 0644 " + strings.ToUpper(h) + " 0 - a\n",
		"negative size":      header + "f 0644 " + h + " -1 - a\n",
		"size spelled +1":    header + "f 0644 " + h + " +1 - a\n",
		"unknown escape":     header + "d 0755 - 0 - a\\t\n",
		"open escape":        header + "d 0755 - 0 - a\\\n",
		"link with a mode":   header + "l 0777 " + h + " 0 - a\n",
		"hash of zeros":      header + "f 0644 " + strings.Repeat("0", 64) + " 0 - a\n",
	} {
		_, err := Parse([]byte(text))
		require.Error(t, err, name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sorted(file("a", "x"), file("b\n", "y")).Encode())
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		if string(m.Encode()) != string(b) {
			t.Fatalf("%q is read as %q", b, m.Encode())
		}
		for _, e := range m.Entries {
			if CheckPath(e.Path) != nil {
				t.Fatalf("path %q", e.Path)
			}
		}
	})
}

func FuzzParseAttrs(f *testing.F) {
	f.Add(EncodeAttrs([]Attr{{"user.a", []byte("b")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseAttrs(b)
		if err != nil {
			return
		}
		again, err := parseAttrs(EncodeAttrs(all))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
