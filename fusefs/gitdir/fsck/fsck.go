package fsck

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits that git does not have. A checkout must fit below a directory of 256 bytes within
// PATH_MAX, and programs that walk a tree must end.
const (
	MaxName  = 255        // bytes of one name: NAME_MAX
	MaxPath  = 4096 - 256 // bytes of a path in the repository
	MaxDepth = 256        // names in a path
	MaxTree  = 32 << 20   // bytes of one tree: some hundred thousand names
)

// ErrTree reports a tree that cannot be checked out.
var ErrTree = errors.New("no worktree can be made of it")

// Path checks the path of a file in a repository.
func Path(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("%w: %q has %d bytes, at most %d", ErrTree, shorten(path), len(path), MaxPath)
	}
	depth := 0
	for name := range strings.SplitSeq(path, "/") {
		if err := Name(name); err != nil {
			return err
		}
		depth++
	}
	if depth > MaxDepth {
		return fmt.Errorf("%w: %q is %d directories deep, at most %d", ErrTree, shorten(path), depth-1, MaxDepth-1)
	}
	return nil
}

// Name checks the name of one entry of a tree.
func Name(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || dotGit(name):
		return fmt.Errorf("%w: it has an entry %q", ErrTree, shorten(name))
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has an entry of %d bytes, %q, at most %d", ErrTree, len(name), shorten(name), MaxName)
	}
	return nil
}

// The modes of an entry.
const (
	modeDir  = "40000"
	modeLink = "120000"
)

// Tree checks a tree object: repeated "MODE NAME\0HASH" (gitformat-tree). hashLen is 20 for SHA-1
// and 32 for SHA-256. An error that is not an ErrTree is the reader's. Tree reads to the end only
// if the tree is valid.
func Tree(r *bufio.Reader, hashLen int) error {
	var c checker
	var hash [32]byte
	for n := 1; ; n++ {
		mode, err := field(r, ' ', 8)
		if errors.Is(err, io.EOF) && mode == "" {
			return nil
		}
		if err != nil {
			return entryError(n, err)
		}
		name, err := field(r, 0, MaxPath)
		if err == nil {
			_, err = io.ReadFull(r, hash[:hashLen])
		}
		if err != nil {
			return entryError(n, err)
		}
		if err := c.entry(mode, name, bytes.Equal(hash[:hashLen], make([]byte, hashLen))); err != nil {
			return err
		}
	}
}

var errField = errors.New("a field that is too long")

// field reads up to and including a byte.
func field(r *bufio.Reader, end byte, most int) (string, error) {
	var b []byte
	for len(b) <= most {
		c, err := r.ReadByte()
		if err != nil {
			return string(b), err
		}
		if c == end {
			return string(b), nil
		}
		b = append(b, c)
	}
	return string(b), errField
}

func entryError(n int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errField) {
		return fmt.Errorf("%w: entry %d cannot be read", ErrTree, n)
	}
	return err
}

// checker keeps the state for checking the order of entries: git sorts a directory as if its name
// ended in "/".
type checker struct {
	last    string
	lastDir bool
	any     bool
	// files are names that a directory of the same name can still follow.
	files []string
}

func (c *checker) entry(mode, name string, null bool) error {
	dir := false
	switch strings.TrimLeft(mode, "0") { // old programs wrote leading zeros
	case modeDir:
		dir = true
	case "100644", "100755", "100664", modeLink, "160000":
	default:
		return fmt.Errorf("%w: %q has the mode %q", ErrTree, shorten(name), shorten(mode))
	}
	if err := Name(name); err != nil {
		return err
	}
	switch {
	case null:
		return fmt.Errorf("%w: %q points to no object", ErrTree, shorten(name))
	case strings.TrimLeft(mode, "0") == modeLink && dotGitmodules(name):
		return fmt.Errorf("%w: it has an entry %q, a symbolic link", ErrTree, shorten(name))
	case c.any && !c.ordered(name, dir):
		return fmt.Errorf("%w: %q is out of order, or twice", ErrTree, shorten(name))
	}
	c.last, c.lastDir, c.any = name, dir, true
	return nil
}

// ordered is verify_ordered of git's fsck.c. A file and a directory of one name need not be
// adjacent: "foo", "foo.bar", "foo/".
func (c *checker) ordered(name string, dir bool) bool {
	n := min(len(c.last), len(name))
	if d := strings.Compare(c.last[:n], name[:n]); d != 0 {
		return d < 0
	}
	next := func(s string, dir bool) byte {
		if len(s) > n {
			return s[n]
		}
		if dir {
			return '/'
		}
		return 0
	}
	if len(c.last) == len(name) {
		return false
	}
	a, b := next(c.last, c.lastDir), next(name, dir)
	switch {
	case a == 0 && b < '/':
		// No directory can follow a name that is no longer a prefix.
		for len(c.files) > 0 && !strings.HasPrefix(c.last, c.files[len(c.files)-1]) {
			c.files = c.files[:len(c.files)-1]
		}
		c.files = append(c.files, c.last)
	case b == '/' && a < '/':
		for len(c.files) > 0 {
			file := c.files[len(c.files)-1]
			c.files = c.files[:len(c.files)-1]
			rest, ok := strings.CutPrefix(name, file)
			if !ok {
				continue
			}
			if rest == "" {
				return false
			}
			if rest[0] < '/' {
				c.files = append(c.files, file)
				break
			}
		}
	}
	return a < b
}

func shorten(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
