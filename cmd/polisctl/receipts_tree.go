package main

import (
	"archive/tar"
	"crypto/sha1" //nolint:gosec // the hash of git's objects
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// archiveCommit is the PAX record of a submodule: git.ArchiveCommit.
const archiveCommit = "POLIS.commit"

// treeWriter writes the files of a git tree into a directory, and computes the hash of the tree from what
// it writes.
type treeWriter struct {
	root  *os.Root
	sha   func() hash.Hash
	files int
	top   *treeNode
}

// treeNode is an object of a git tree; below is not nil for a directory.
type treeNode struct {
	mode  string
	id    []byte
	below map[string]*treeNode
}

// writeTree writes a tar archive into a new directory, and returns how many files there are and the hash of their tree;
// like is a hash of the repository's kind. No file is outside of the directory, whatever the archive has.
func writeTree(in io.Reader, dir, like string) (files int, tree string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, "", fmt.Errorf("make the directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, "", err
	}
	defer root.Close()
	w := &treeWriter{root: root, sha: sha1.New, top: &treeNode{below: map[string]*treeNode{}}}
	if len(like) == 2*sha256.Size {
		w.sha = sha256.New
	}
	archive := tar.NewReader(in)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.entry(h, archive)
		}
		if err != nil {
			return 0, "", fmt.Errorf("write the files to %s, which is incomplete now: %w", dir, err)
		}
	}
	return w.files, hex.EncodeToString(w.hash(w.top)), nil
}

// entry writes one file.
func (w *treeWriter) entry(h *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	parts := strings.Split(name, "/")
	if slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return fmt.Errorf("%q is no path of a tree", name)
	}
	at := w.top
	for i, p := range parts[:len(parts)-1] {
		next := at.below[p]
		if next == nil {
			if err := w.root.Mkdir(strings.Join(parts[:i+1], "/"), 0o755); err != nil {
				return err
			}
			next = &treeNode{mode: "40000", below: map[string]*treeNode{}}
			at.below[p] = next
		}
		if next.below == nil {
			return fmt.Errorf("%q is below a file: %w", name, fs.ErrExist)
		}
		at = next
	}
	last := parts[len(parts)-1]
	if at.below[last] != nil {
		return fmt.Errorf("%q: %w", name, fs.ErrExist)
	}
	n := &treeNode{}
	at.below[last] = n
	w.files++
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		n.mode = "160000"
		if n.id, err = hex.DecodeString(h.PAXRecords[archiveCommit]); err == nil {
			err = w.root.Mkdir(name, 0o755)
		}
	case tar.TypeSymlink:
		n.mode, n.id = "120000", w.blob(int64(len(h.Linkname)), strings.NewReader(h.Linkname), io.Discard, &err)
		if err == nil {
			err = w.root.Symlink(h.Linkname, name)
		}
	case tar.TypeReg:
		err = w.file(n, name, h, content)
	default:
		err = fmt.Errorf("%q is neither a file nor a symbolic link", name)
	}
	return err
}

func (w *treeWriter) file(n *treeNode, name string, h *tar.Header, content io.Reader) (err error) {
	perm := os.FileMode(0o644)
	n.mode = "100644"
	if h.Mode&0o100 != 0 {
		perm, n.mode = 0o755, "100755"
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	n.id = w.blob(h.Size, content, f, &err)
	return errors.Join(err, f.Close())
}

// blob copies a content, and returns the hash of its object.
func (w *treeWriter) blob(size int64, from io.Reader, to io.Writer, err *error) []byte {
	sum := w.sha()
	fmt.Fprintf(sum, "blob %d\x00", size)
	n, cerr := io.Copy(io.MultiWriter(sum, to), from)
	if *err = cerr; cerr == nil && n != size {
		*err = io.ErrUnexpectedEOF
	}
	return sum.Sum(nil)
}

// hash returns the hash of a tree. Git sorts directories as if their names ended in "/".
func (w *treeWriter) hash(n *treeNode) []byte {
	type named struct {
		key, name string
		*treeNode
	}
	all := make([]named, 0, len(n.below))
	for name, c := range n.below {
		key := name
		if c.below != nil {
			key += "/"
			c.id = w.hash(c)
		}
		all = append(all, named{key, name, c})
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.key, b.key) })
	var body strings.Builder
	for _, c := range all {
		body.WriteString(c.mode + " " + c.name + "\x00" + string(c.id))
	}
	sum := w.sha()
	fmt.Fprintf(sum, "tree %d\x00%s", body.Len(), body.String())
	return sum.Sum(nil)
}
