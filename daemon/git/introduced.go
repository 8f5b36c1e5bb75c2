package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"polis/daemon/host/cage"
)

// walkTimeout bounds a walk over a whole history with the changes of every commit.
const walkTimeout = 20 * time.Minute

var walkLimits = cage.Limits{AddressSpace: 4 << 30, FileSize: 1, CPU: 20 * time.Minute}

// Introduced calls each for every file and symbolic link that a commit has and that none of its
// parents has at the same path. revs are as for Complete. Every file of every commit that revs
// name is reported, or is at the same path in a commit that a "^NAME" among revs reaches. path
// comes from the tree: it can contain any bytes, and a few trees can have a practically unlimited
// number of paths. An error of each ends the walk.
func (r Repo) Introduced(ctx context.Context, revs []string, each func(path, id string) error) error {
	c := Cmd{Args: []string{"log", "--stdin", "--raw", "-r", "-z", "-c", "--root", "--no-abbrev", "--no-renames", "--no-notes", "--no-show-signature", "--no-decorate", "--format="},
		Stdin: strings.NewReader(strings.Join(revs, "\n") + "\n"), Limits: &walkLimits, Timeout: walkTimeout}
	head := ""
	err := r.records(ctx, c, splitNUL, func(rec string) error {
		if head == "" {
			if head = rec; !strings.HasPrefix(rec, ":") {
				return fmt.Errorf("git log --raw: cannot read %q", shorten(rec))
			}
			return nil
		}
		id, ok, err := introduced(head)
		head = ""
		if err != nil {
			return err
		}
		if ok {
			return each(rec, id)
		}
		return nil
	})
	if err == nil && head != "" {
		err = fmt.Errorf("git log --raw: %q has no path", shorten(head))
	}
	if err != nil {
		return fmt.Errorf("read what commits change: %w", err)
	}
	return nil
}

// introduced parses a line of git diff --raw, which has one colon, mode and id for each parent
// (git-diff-tree(1), "diff format for merges"). ok is false for an entry that is not a file.
func introduced(line string) (id string, ok bool, err error) {
	n := len(line) - len(strings.TrimLeft(line, ":"))
	f := strings.Split(line[n:], " ")
	if n == 0 || len(f) != 2*(n+1)+1 || !IsOID(f[2*n+1]) {
		return "", false, fmt.Errorf("git log --raw: cannot read %q", shorten(line))
	}
	switch mode := f[n]; mode {
	case "000000", "160000": // removed, or a submodule
		return "", false, nil
	}
	return f[2*n+1], true, nil
}

// Files calls each for the files and symbolic links of a tree.
func (r Repo) Files(ctx context.Context, tree string, each func(path, id string) error) error {
	c := Cmd{Args: []string{"ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree}, Limits: &walkLimits, Timeout: walkTimeout}
	err := r.records(ctx, c, splitNUL, func(rec string) error {
		head, path, ok := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 || !IsOID(f[2]) {
			return fmt.Errorf("git ls-tree: cannot read %q", shorten(rec))
		}
		if f[1] == "blob" {
			return each(path, f[2])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the files of a tree: %w", err)
	}
	return nil
}

func splitNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
