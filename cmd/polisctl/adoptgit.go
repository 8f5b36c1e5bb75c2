package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/http/client"
)

// ownTree is a linked worktree of the caller's own project.
type ownTree struct{ path, branch, commit string }

// ownGit runs the caller's git in the caller's worktree, as the caller. git itself refuses repositories of other
// users, also if the caller's configuration has exceptions from that; without the variables of sudo(8) it refuses root the
// repository of the user who called sudo too, whose configuration (filters) would run as root. Hooks and monitors of the repository are off, as they are for nothing here.
func ownGit(ctx context.Context, dir string, args ...string) *exec.Cmd {
	all := append([]string{"-C", dir, "-c", "safe.directory=", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)
	cmd := exec.CommandContext(ctx, "git", all...) //nolint:forbidigo // the caller's own git, in the caller's own repository
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SUDO_") })
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func gitOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := ownGit(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(stderr.String())
		e := api.Errorf(api.CodeBadRequest, "git %s in %s: %w: %s", args[0], dir, err, api.Shorten(text, 400))
		if strings.Contains(text, "dubious ownership") {
			e = e.WithHint("run this as the owner of the project, a member of the group polis")
		}
		return "", e
	}
	return string(out), nil
}

// listWorktrees returns the linked worktrees of a project that exist and that are not those of polis.
func listWorktrees(ctx context.Context, dir string) ([]ownTree, error) {
	out, err := gitOutput(ctx, dir, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	var trees []ownTree
	for i, block := range strings.Split(out, "\x00\x00") {
		var t ownTree
		skip := i == 0 // the project itself
		for line := range strings.SplitSeq(block, "\x00") {
			key, value, _ := strings.Cut(line, " ")
			switch key {
			case "worktree":
				t.path = value
			case "HEAD":
				t.commit = value
			case "branch":
				t.branch = strings.TrimPrefix(value, "refs/heads/")
			case "bare", "prunable":
				skip = true
			}
		}
		if !skip && t.path != "" && t.commit != "" && !strings.Contains(t.path, "/.polis/") {
			trees = append(trees, t)
		}
	}
	slices.SortFunc(trees, func(a, b ownTree) int { return strings.Compare(filepath.Base(a.path), filepath.Base(b.path)) })
	return trees, nil
}

// measure counts the work in a worktree.
func (t ownTree) measure(ctx context.Context, w *adopted) error {
	changed, err := gitOutput(ctx, t.path, "diff", "--name-only", "-z", "HEAD")
	if err != nil {
		return err
	}
	untracked, err := gitOutput(ctx, t.path, "ls-files", "-z", "--others", "--exclude-standard")
	w.Changed, w.Untracked = strings.Count(changed, "\x00"), strings.Count(untracked, "\x00")
	return err
}

// inAgent runs a command in an agent with input, and returns its output.
func inAgent(ctx context.Context, c *client.Client, agent string, input func(io.Writer) error, command ...string) (string, error) {
	s, err := c.Exec(ctx, agent, wire.ExecRequest{Command: command, Stdin: input != nil})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }() //nolint:errcheck // it has ended already, or its end does not matter
	fed := make(chan error, 1)
	go func() {
		if input == nil {
			fed <- nil
			return
		}
		err := input(s.Stdin())
		_ = s.CloseStdin() //nolint:errcheck // a command that has ended reads no more; its status decides
		fed <- err
	}()
	var out, errs bytes.Buffer
	status, err := s.Run(ctx, &out, &errs)
	_ = s.Close() //nolint:errcheck // wakes a writer whose reader is gone
	ferr := <-fed
	switch {
	case err != nil:
		return "", err
	case status != 0:
		return "", errors.Join(api.Errorf(api.CodeInternal, "%s in agent %s ended with %d: %s", command[0], agent, status, api.Shorten(strings.TrimSpace(errs.String()), 400)), ferr)
	case ferr != nil:
		return "", api.Errorf(api.CodeInternal, "send work to agent %s: %w", agent, ferr)
	}
	return out.String(), nil
}

const (
	fetchScript = `f=$(mktemp "$HOME/.polis-adopt.XXXXXX"); trap 'rm -f "$f"' EXIT; cat >"$f"; git fetch -q "$f" HEAD; git reset -q --hard FETCH_HEAD`
	applyScript = `git apply --index --whitespace=nowarn -`
)

// patchOf is the command line of git for the uncommitted changes, the same on both sides.
var patchOf = []string{"diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", "HEAD"}

// adoptTree adds the agent and brings the commits, the changes and the untracked files of a worktree. An agent that
// could not get all of it is removed again: it has nothing that the worktree has not.
func (a *app) adoptTree(ctx context.Context, c *client.Client, t ownTree, w *adopted, req api.AddRequest) (err error) {
	if _, err := c.Add(ctx, req, nil); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortCall)
			defer cancel()
			_, rerr := c.Remove(ctx, w.Agent, true, false)
			err = errors.Join(err, rerr)
		}
	}()
	base, err := inAgent(ctx, c, w.Agent, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	base = strings.TrimSpace(base)
	count, err := gitOutput(ctx, t.path, "rev-list", "--count", t.commit, "^"+base)
	if err != nil {
		return err
	}
	if w.Commits, err = strconv.Atoi(strings.TrimSpace(count)); err != nil {
		return err
	}
	switch {
	case w.Commits > 0:
		bundle := ownGit(ctx, t.path, "bundle", "create", "--quiet", "-", "HEAD", "^"+base)
		if _, err := inAgent(ctx, c, w.Agent, feed(bundle), "sh", "-ec", fetchScript); err != nil {
			return err
		}
	case t.commit != base:
		if _, err := inAgent(ctx, c, w.Agent, nil, "git", "reset", "-q", "--hard", t.commit); err != nil {
			return err
		}
	}
	patch, err := gitOutput(ctx, t.path, patchOf...)
	if err != nil {
		return err
	}
	if patch != "" {
		write := func(in io.Writer) error { _, err := io.WriteString(in, patch); return err }
		if _, err := inAgent(ctx, c, w.Agent, write, "sh", "-ec", applyScript); err != nil {
			return err
		}
	}
	if w.Untracked > 0 {
		names, err := gitOutput(ctx, t.path, "ls-files", "-z", "--others", "--exclude-standard")
		if err != nil {
			return err
		}
		if _, err := inAgent(ctx, c, w.Agent, func(in io.Writer) error { return t.archive(in, names) }, "tar", "-x", "--no-same-owner", "-f", "-"); err != nil {
			return err
		}
	}
	got, err := inAgent(ctx, c, w.Agent, nil, append([]string{"git"}, patchOf...)...)
	if err != nil {
		return err
	}
	if got != patch {
		return api.Errorf(api.CodeInternal, "%w", errChanged)
	}
	w.Done = true
	return nil
}

// feed is the output of a command as the input of another one.
func feed(cmd *exec.Cmd) func(io.Writer) error {
	return func(in io.Writer) error {
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = in, &stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, api.Shorten(strings.TrimSpace(stderr.String()), 400))
		}
		return nil
	}
}

// archive writes the named files of the worktree as tar: regular files and symbolic links.
func (t ownTree) archive(out io.Writer, names string) error {
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return err
	}
	defer root.Close()
	w := tar.NewWriter(out)
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if err := addFile(w, root, filepath.Clean(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return w.Close()
}

func addFile(w *tar.Writer, root *os.Root, name string) error {
	fi, err := root.Lstat(name)
	if err != nil {
		return err
	}
	link := ""
	switch fi.Mode().Type() {
	case 0:
	case fs.ModeSymlink:
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	default:
		return errors.New("is neither a file nor a link; remove it or ignore it")
	}
	h, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if err := w.WriteHeader(h); err != nil || link != "" {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, f, h.Size)
	return errors.Join(err, f.Close())
}
