package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"polis/daemon/cage"
)

// walkTimeout bounds a walk over a whole history, with what every commit changes.
const walkTimeout = 20 * time.Minute

var walkLimits = cage.Limits{AddressSpace: 4 << 30, FileSize: 1, CPU: 20 * time.Minute}

// Introduced hands out what commits have that none of their parents has at the
// same path: files and symbolic links. revs are as for Complete. Every file of
// every commit that revs name is handed out, or is at the same path in a commit
// that a "^NAME" among revs leads to. path is what the tree says: it can have any bytes, and
// few trees can have more paths than anybody can count. An error of each ends the walk.
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

// introduced reads a line of git diff --raw, with one colon, mode and id for
// each parent (git-diff-tree(1), "diff format for merges"). ok is false for what is no file.
func introduced(line string) (id string, ok bool, err error) {
	n := len(line) - len(strings.TrimLeft(line, ":"))
	f := strings.Split(line[n:], " ")
	if n == 0 || len(f) != 2*(n+1)+1 || !IsOID(f[2*n+1]) {
		return "", false, fmt.Errorf("git log --raw: cannot read %q", shorten(line))
	}
	switch mode := f[n]; mode {
	case "000000", "160000": // it is gone, or a submodule
		return "", false, nil
	}
	return f[2*n+1], true, nil
}

// Files hands out the files and symbolic links of a tree.
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
