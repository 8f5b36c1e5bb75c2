package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"polis/daemon/history/cas"
)

// Kind is what an entry is.
type Kind byte

// The kinds. Pipes, sockets and devices are in no manifest.
const (
	File Kind = 'f'
	Dir  Kind = 'd'
	Link Kind = 'l'
)

// Entry is one object of a tree.
type Entry struct {
	// Path is relative, with slashes; any bytes but NUL.
	Path string
	Kind Kind
	// Mode has the permission bits, set-user-ID, set-group-ID and sticky: at most 07777. It is 0 for
	// a link.
	Mode uint32
	// Hash and Size are of the content of a file, or of the target of a link.
	Hash cas.Hash
	Size int64
	// Attrs is the hash of EncodeAttrs of the extended attributes; zero if there are none.
	Attrs cas.Hash
}

// Manifest is the state of a tree: its entries in the order of the bytes of their paths. The
// directory that the tree is has no entry.
type Manifest struct{ Entries []Entry }

const (
	header = "polis-snapshot 1\n"
	// MaxPath is the longest path, in bytes.
	MaxPath = 4096
	// MaxManifest bounds an encoded manifest, in bytes.
	MaxManifest = 256 << 20
)

// Sort puts the entries in order.
func (m *Manifest) Sort() {
	slices.SortFunc(m.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}

// Content returns the content hash: SHA-256 of "path:hash\n" for every regular file, in the order of
// the bytes of the paths. hash is the SHA-256 of the file's content as 64 hexadecimal digits in lower
// case. Every line ends with a newline, the last one too; without a file, nothing is hashed. In path,
// a backslash is written as \\ and a newline as \n, so that no name looks like two lines. A colon
// stays: the last 65 bytes of a line are the colon and the hash.
func (m *Manifest) Content() cas.Hash {
	sum := sha256.New()
	var line []byte
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.Kind != File {
			continue
		}
		line = append(appendPath(line[:0], e.Path), ':')
		line = append(append(line, e.Hash.String()...), '\n')
		sum.Write(line)
	}
	return cas.Hash(sum.Sum(nil))
}

// Metadata returns the metadata hash: SHA-256 of these lines, in the order of the bytes of the paths,
// with paths as for Content.
//
//	path:f:MODE          a regular file; MODE is four octal digits
//	path:d:MODE          a directory
//	path:l:HASH          a symbolic link; HASH is the SHA-256 of its target
//	path:x:HASH          after the line of a file or directory with extended attributes: their hash
func (m *Manifest) Metadata() cas.Hash {
	sum := sha256.New()
	var line []byte
	for i := range m.Entries {
		e := &m.Entries[i]
		line = append(appendPath(line[:0], e.Path), ':', byte(e.Kind), ':')
		if e.Kind == Link {
			line = append(line, e.Hash.String()...)
		} else {
			line = fmt.Appendf(line, "%04o", e.Mode)
		}
		line = append(line, '\n')
		if !e.Attrs.IsZero() {
			line = append(appendPath(line, e.Path), ":x:"...)
			line = append(append(line, e.Attrs.String()...), '\n')
		}
		sum.Write(line)
	}
	return cas.Hash(sum.Sum(nil))
}

// appendPath writes a path so that it has no newline.
func appendPath(to []byte, path string) []byte {
	for i := range len(path) {
		switch c := path[i]; c {
		case '\\':
			to = append(to, '\\', '\\')
		case '\n':
			to = append(to, '\\', 'n')
		default:
			to = append(to, c)
		}
	}
	return to
}

// readPath reads what appendPath wrote.
func readPath(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i++; i == len(s) {
			return "", errors.New("path ends in a backslash")
		}
		switch s[i] {
		case '\\':
			out = append(out, '\\')
		case 'n':
			out = append(out, '\n')
		default:
			return "", fmt.Errorf("path has an unknown escape \\%c", s[i])
		}
	}
	return string(out), nil
}

// Totals returns the number of files, links and directories, and the bytes of the files.
func (m *Manifest) Totals() (files, links, dirs int, size int64) {
	for i := range m.Entries {
		switch e := &m.Entries[i]; e.Kind {
		case File:
			files++
			size += e.Size
		case Link:
			links++
		case Dir:
			dirs++
		}
	}
	return files, links, dirs, size
}

// Encode returns the text of a manifest: a header, then one line for each entry,
//
//	KIND MODE HASH SIZE ATTRS PATH
//
// with "-" for what an entry does not have.
func (m *Manifest) Encode() []byte {
	out := make([]byte, 0, len(header)+len(m.Entries)*128)
	out = append(out, header...)
	for i := range m.Entries {
		e := &m.Entries[i]
		out = append(out, byte(e.Kind), ' ')
		out = fmt.Appendf(out, "%04o ", e.Mode)
		out = append(appendHash(out, e.Hash), ' ')
		out = append(strconv.AppendInt(out, e.Size, 10), ' ')
		out = append(appendHash(out, e.Attrs), ' ')
		out = append(appendPath(out, e.Path), '\n')
	}
	return out
}

func appendHash(to []byte, h cas.Hash) []byte {
	if h.IsZero() {
		return append(to, '-')
	}
	return append(to, h.String()...)
}

// Parse reads what Encode wrote. It accepts no other text: no unknown field, no entry out of order,
// no path that leaves a tree.
func Parse(b []byte) (*Manifest, error) {
	rest, ok := bytes.CutPrefix(b, []byte(header))
	if !ok {
		return nil, errors.New("manifest: it is not of version 1")
	}
	m := &Manifest{}
	for n := 1; len(rest) > 0; n++ {
		var line []byte
		if line, rest, ok = bytes.Cut(rest, []byte{'\n'}); !ok {
			return nil, errors.New("manifest: it is cut short")
		}
		e, err := parseLine(string(line))
		if err != nil {
			return nil, fmt.Errorf("manifest: entry %d: %w", n, err)
		}
		if k := len(m.Entries); k > 0 && m.Entries[k-1].Path >= e.Path {
			return nil, fmt.Errorf("manifest: entry %d is not in order", n)
		}
		m.Entries = append(m.Entries, e)
	}
	return m, nil
}

func parseLine(line string) (e Entry, err error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) != 6 || len(f[0]) != 1 || len(f[1]) != 4 {
		return e, errors.New("it does not have six fields")
	}
	mode, err := strconv.ParseUint(f[1], 8, 12)
	if err != nil {
		return e, err
	}
	e.Kind, e.Mode = Kind(f[0][0]), uint32(mode)
	if e.Hash, err = parseHash(f[2]); err != nil {
		return e, err
	}
	if e.Size, err = strconv.ParseInt(f[3], 10, 64); err != nil || e.Size < 0 || strconv.FormatInt(e.Size, 10) != f[3] {
		return e, fmt.Errorf("size %q", f[3])
	}
	if e.Attrs, err = parseHash(f[4]); err != nil {
		return e, err
	}
	if e.Path, err = readPath(f[5]); err != nil {
		return e, err
	}
	return e, e.check()
}

func parseHash(s string) (cas.Hash, error) {
	if s == "-" {
		return cas.Hash{}, nil
	}
	h, err := cas.Parse(s)
	if err == nil && h.IsZero() {
		err = errors.New("hash of zeros")
	}
	return h, err
}

func (e *Entry) check() error {
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	content := !e.Hash.IsZero()
	switch {
	case e.Kind == File && content:
	case e.Kind == Dir && !content && e.Size == 0:
	case e.Kind == Link && content && e.Mode == 0 && e.Attrs.IsZero():
	default:
		return fmt.Errorf("kind %q does not have these fields", string(e.Kind))
	}
	return nil
}

// CheckPath returns an error unless path is relative, in its shortest form and leaves no tree.
func CheckPath(path string) error {
	if len(path) > MaxPath || strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("path %.200q: must have at most %d bytes and no NUL", path, MaxPath)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %.200q: must be relative to the tree: %w", path, fs.ErrInvalid)
		}
	}
	return nil
}
