package git

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// ArchiveCommit is the PAX record that has the commit of a submodule.
const ArchiveCommit = "POLIS.commit"

const (
	// maxLinkTarget is the longest target of a symbolic link, in bytes: PATH_MAX.
	maxLinkTarget = 4096
	// archiveAhead is how many files git may be asked for before they are written.
	archiveAhead = 256
)

// archived is a file of a tree.
type archived struct{ mode, id, path string }

// Archive writes the files of a tree to a tar archive, with the contents that are stored: no attribute,
// filter or configuration changes them. A submodule is an empty directory.
func (r Repo) Archive(ctx context.Context, tree string, to io.Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	ids, names := io.Pipe()
	out, objects := io.Pipe()
	files := make(chan archived, archiveAhead)
	group.Go(func() (err error) {
		defer func() { close(files); names.CloseWithError(err) }() // nil ends the list
		c := Cmd{Args: []string{"ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree}, Limits: &walkLimits, Timeout: walkTimeout}
		return r.records(ctx, c, splitNUL, func(rec string) error { return listArchived(ctx, rec, names, files) })
	})
	group.Go(func() error {
		_, err := r.Do(ctx, Cmd{Args: []string{"cat-file", "--batch"}, Stdin: ids, Stdout: objects, Timeout: copyTimeout})
		ids.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		objects.CloseWithError(err)
		return err
	})
	var bad error
	group.Go(func() error {
		bad = archive(bufio.NewReaderSize(out, 64<<10), files, tar.NewWriter(to))
		out.CloseWithError(errors.Join(bad, io.ErrClosedPipe))
		return bad
	})
	err := group.Wait()
	if bad != nil && ctx.Err() == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("archive tree %s: %w", tree, err)
	}
	return nil
}

// listArchived asks git for one file of a tree.
func listArchived(ctx context.Context, rec string, names io.Writer, files chan<- archived) error {
	head, path, ok := strings.Cut(rec, "\t")
	f := strings.Fields(head)
	if !ok || len(f) != 3 || !IsOID(f[2]) {
		return fmt.Errorf("git ls-tree: cannot read %q", shorten(rec))
	}
	if f[1] == "blob" {
		if _, err := fmt.Fprintln(names, f[2]); err != nil {
			return err
		}
	}
	select {
	case files <- archived{mode: f[0], id: f[2], path: path}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// archive writes files, whose contents are in the output of cat-file --batch.
func archive(in *bufio.Reader, files <-chan archived, to *tar.Writer) error {
	for f := range files {
		if f.mode == "160000" {
			if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.path + "/", Mode: 0o755, PAXRecords: map[string]string{ArchiveCommit: f.id}}); err != nil {
				return err
			}
			continue
		}
		if err := archiveBlob(in, f, to); err != nil {
			return fmt.Errorf("%q: %w", shorten(f.path), err)
		}
	}
	return to.Close()
}

func archiveBlob(in *bufio.Reader, f archived, to *tar.Writer) error {
	head, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	v := strings.Fields(head)
	if len(v) != 3 || v[0] != f.id || v[1] != "blob" {
		return fmt.Errorf("%w: blob %s is missing", ErrNotFound, f.id)
	}
	size, err := strconv.ParseInt(v[2], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("git cat-file: cannot read %q", shorten(head))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: size, Mode: 0o644}
	switch f.mode {
	case "100755":
		h.Mode = 0o755
	case "120000":
		if size > maxLinkTarget {
			return fmt.Errorf("%w: its target has %d bytes", ErrBadTree, size)
		}
		target := make([]byte, size)
		if _, err := io.ReadFull(in, target); err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		h.Typeflag, h.Size, h.Linkname, h.Mode = tar.TypeSymlink, 0, string(target), 0o777
	}
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeReg {
		if _, err := io.CopyN(to, in, size); err != nil {
			return err
		}
	}
	_, err = in.Discard(1) // the newline behind it
	return err
}
