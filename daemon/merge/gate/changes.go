package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"polis/daemon/git"
)

// The modes of git's trees that are judged in ways of their own.
const (
	ModeNone    = "000000"
	ModeFile    = "100644"
	ModeExec    = "100755"
	ModeLink    = "120000"
	ModeGitlink = "160000"
)

// maxLink bounds the text of a symbolic link, in bytes: PATH_MAX.
const maxLink = 4096

// ErrRaw reports that git's list of changes cannot be read.
var ErrRaw = errors.New("git diff-tree: cannot read its answer")

// Change is a path in which two trees differ.
type Change struct {
	Path     string
	Old, New string // modes, six octal digits; "000000" where there is none
	OldID    string // object of the old side
	ID       string // object of the new side
	// Target is the text of a symbolic link of the new side. TooLong is true if it
	// has more than 4096 bytes and was not read.
	Target  string
	TooLong bool
}

// Changes lists every path in which two trees or commits differ, sorted as git
// sorts them. Renames are a removal and an addition.
func Changes(ctx context.Context, repo git.Repo, from, to string) ([]Change, error) {
	out, err := repo.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", from, to)
	if err != nil {
		return nil, fmt.Errorf("list what changed: %w", err)
	}
	list, err := parseRaw(out)
	if err != nil {
		return nil, err
	}
	return list, links(ctx, repo, list)
}

// ChangedSince is Changes from where a commit has parted from all that is known
// already; without a common commit, all that it has.
func ChangedSince(ctx context.Context, repo git.Repo, commit string, known ...string) ([]Change, error) {
	base, err := repo.Line(ctx, append([]string{"merge-base", commit}, known...)...)
	if code, ok := git.ExitCode(err); err != nil && ok && code == 1 {
		base, err = emptyTree(len(commit)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("find where %.12s parted: %w", commit, err)
	}
	return Changes(ctx, repo, base, commit)
}

// emptyTree is the tree without entries, which git knows without having it.
func emptyTree(idLen int) string {
	if idLen == 64 {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// parseRaw reads git-diff-tree(1) --raw -z: ":OLD NEW ID ID STATUS\0PATH\0".
func parseRaw(out []byte) ([]Change, error) {
	fields := git.SplitNUL(out)
	if len(fields)%2 != 0 {
		return nil, ErrRaw
	}
	list := make([]Change, 0, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		f := strings.Fields(fields[i])
		if len(f) != 5 || len(f[0]) != 7 || f[0][0] != ':' || len(f[1]) != 6 || fields[i+1] == "" {
			return nil, fmt.Errorf("%w: %q", ErrRaw, fields[i])
		}
		list = append(list, Change{Path: fields[i+1], Old: f[0][1:], New: f[1], OldID: f[2], ID: f[3]})
	}
	return list, nil
}

// links reads the texts of the symbolic links among the changes.
func links(ctx context.Context, repo git.Repo, list []Change) error {
	var in bytes.Buffer
	var which []int
	for i, c := range list {
		if c.New == ModeLink {
			which = append(which, i)
			in.WriteString(c.ID + "\n")
		}
	}
	if len(which) == 0 {
		return nil
	}
	sizes, err := repo.Do(ctx, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objecttype) %(objectsize)"}, Stdin: bytes.NewReader(in.Bytes())})
	if err != nil {
		return fmt.Errorf("read symbolic links: %w", err)
	}
	in.Reset()
	lines := strings.Split(strings.TrimSuffix(string(sizes), "\n"), "\n")
	if len(lines) != len(which) {
		return fmt.Errorf("read symbolic links: git cat-file gave %d answers for %d", len(lines), len(which))
	}
	short := which[:0:0]
	for n, i := range which {
		size, ok := strings.CutPrefix(lines[n], "blob ")
		bytes, err := strconv.ParseInt(size, 10, 64)
		if !ok || err != nil {
			return fmt.Errorf("read symbolic link %q: git cat-file says %q", list[i].Path, lines[n])
		}
		if list[i].TooLong = bytes > maxLink; !list[i].TooLong {
			short = append(short, i)
			in.WriteString(list[i].ID + "\n")
		}
	}
	out, err := repo.Do(ctx, git.Cmd{Args: []string{"cat-file", "--batch"}, Stdin: &in})
	if err != nil {
		return fmt.Errorf("read symbolic links: %w", err)
	}
	r := bufio.NewReader(bytes.NewReader(out))
	for _, i := range short {
		if list[i].Target, err = blob(r); err != nil {
			return fmt.Errorf("read symbolic link %q: %w", list[i].Path, err)
		}
	}
	return nil
}

// blob reads one answer of cat-file --batch.
func blob(r *bufio.Reader) (string, error) {
	head, err := r.ReadString('\n')
	f := strings.Fields(head)
	if err != nil || len(f) != 3 {
		return "", fmt.Errorf("git cat-file: cannot read %q", head)
	}
	size, err := strconv.Atoi(f[2])
	if err != nil || size > maxLink {
		return "", fmt.Errorf("git cat-file: cannot read %q", head)
	}
	body := make([]byte, size+1)
	if _, err := io.ReadFull(r, body); err != nil {
		return "", fmt.Errorf("git cat-file: %w", err)
	}
	return string(body[:size]), nil
}
