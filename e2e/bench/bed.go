package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"polis/e2e/bench/corpus"
	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

// The user who owns the trees and does the work: nobody.
const owner = 65534

// sandboxDir is where the sandboxes have the trees of the other columns, and the worker. With
// /var/tmp it is as deep as the project, because each directory of a path takes time.
const sandboxDir = "/polis/bench/trees"

// column is one file system that is measured.
type column struct {
	name string
	// trees are the directories, with their paths in the sandboxes.
	trees []string
	// branches are the branches the trees are on.
	branches []string
	// servers are the processes that serve the files.
	servers []int
	// worker is the one in the column's own sandbox; nil: those of the bed are.
	worker *session
}

// session returns the worker that has the column's i-th tree.
func (b *bed) session(c *column, i int) *session {
	if c.worker != nil {
		return c.worker
	}
	return b.workers[i]
}

// bed has all processes, mounts and directories of a measurement.
type bed struct {
	bin, dir string
	loopback string // its program
	nullfs   string // the floor's
	// mounts are made once polisd runs, which lets the kernel ask by io_uring.
	mounts []func() error
	size   size
	// agents is how many agents there are, at least 1.
	agents int
	// layers is whether worktrees share a base tree, and the order of overlay and view is compared.
	layers bool
	// builds is whether anything is built.
	builds  bool
	say     func(format string, a ...any)
	corpus  corpus.Corpus
	columns []*column
	workers []*session
	undo    []func() error
}

func (b *bed) path(elem ...string) string {
	return filepath.Join(append([]string{b.dir}, elem...)...)
}

// later registers an undo for close. The last one is run first.
func (b *bed) later(f func() error) { b.undo = append(b.undo, f) }

func (b *bed) close() error {
	var errs error
	for len(b.undo) > 0 {
		last := len(b.undo) - 1
		errs = errors.Join(errs, b.undo[last]())
		b.undo = b.undo[:last]
	}
	return errs
}

// open makes the corpus, the other columns' mounts, polisd with its agents,
// and a worker in each of them, in a new directory below parent.
func (b *bed) open(ctx context.Context, parent string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("must be root: polisd and the mounts need it")
	}
	b.agents = max(b.agents, 1)
	if b.bin, err = filepath.Abs(b.bin); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.loopback, b.nullfs = filepath.Join(filepath.Dir(self), "loopback"), filepath.Join(filepath.Dir(self), "nullfs")
	for _, p := range []string{b.loopback, b.nullfs, filepath.Join(b.bin, "polisd"), filepath.Join(b.bin, "polis-shim"), filepath.Join(b.bin, "polisctl")} {
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("%w: run make bench", err)
		}
	}
	for _, p := range []string{"bindfs", "rg", "git", "tar", "grep", "find", "go"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed: run scripts/setup bench", p)
		}
	}
	if b.dir, err = os.MkdirTemp(parent, "polis-bench-"); err != nil {
		return err
	}
	b.later(b.removeDir)
	// Agents are not root.
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	root, err := output(ctx, "", "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	if err := b.trees(ctx, root, self); err != nil {
		return err
	}
	return b.polis(ctx, root)
}

// trees makes the corpus, what is below sandboxDir, and the mounts there.
func (b *bed) trees(ctx context.Context, goroot, self string) error {
	b.say("making the corpus in %s", b.dir)
	var err error
	b.corpus, err = corpus.Make(ctx, b.path("project"), corpus.Options{GoRoot: goroot, Only: b.size.only, History: b.size.history, Changed: b.size.changed, Long: b.size.long})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.path("shared"), 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, b.corpus.Dir, "git", "archive", "-o", b.path("shared", "tree.tar"), "main"); err != nil {
		return err
	}
	cache := b.path("shared", "gocache")
	if err := os.Mkdir(cache, 0o755); err != nil {
		return err
	}
	if b.builds {
		b.say("filling Go's build cache")
		if err := b.corpus.Build(ctx, cache); err != nil {
			return err
		}
	}
	for _, dir := range []string{cache, b.corpus.Dir} {
		if err := corpus.Give(dir, owner, owner); err != nil {
			return err
		}
	}
	if _, err := output(ctx, "", "install", "-m", "755", self, b.path("shared", "worker")); err != nil {
		return err
	}
	others := []string{table.Native, table.Floor, "bindfs", "loopback"}
	if b.layers {
		others = []string{table.Native, kernelOverlay}
	}
	for _, name := range others {
		n := b.agents
		if name == table.Floor {
			n = 1
		}
		b.say("making the trees for %s: %d", name, n)
		c := &column{name: name}
		for i := range n {
			if err := b.tree(ctx, c, i); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		b.columns = append(b.columns, c)
	}
	return nil
}

// tree makes one tree of a column other than polis: a copy of the corpus, below a mount unless the
// column is native.
func (b *bed) tree(ctx context.Context, c *column, i int) error {
	name := fmt.Sprintf("%s%d", c.name, i)
	seen := b.path("shared", name)
	backing := seen
	if c.name != table.Native {
		backing = b.path("backing", name)
		if err := os.MkdirAll(seen, 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(backing), 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, "", "cp", "-a", b.corpus.Dir, backing); err != nil {
		return err
	}
	c.trees = append(c.trees, filepath.Join(sandboxDir, name))
	c.branches = append(c.branches, "main")
	switch c.name {
	case "bindfs":
		return b.mount(ctx, c, seen, "bindfs", "-f", backing, seen)
	case kernelOverlay:
		return b.overlay(ctx, backing, seen)
	case "loopback":
		return b.mount(ctx, c, seen, b.loopback, "-allow-other", "-q", seen, backing)
	case table.Floor:
		// What git notes of the copied files it cannot note there.
		if _, err := output(ctx, backing, "git", "status"); err != nil {
			return err
		}
		b.mounts = append(b.mounts, func() error { return b.mount(ctx, c, seen, b.nullfs, backing, seen) })
	}
	return nil
}

func (b *bed) describe() string {
	return fmt.Sprintf("corpus: %d Go files and what is beside them, %d commits, %d files differ on the other branch", b.corpus.Files, b.size.history+1, b.size.changed)
}

// removeDir removes the directory, but never through a mount.
func (b *bed) removeDir() error {
	left, err := mountsBelow(b.dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(left, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s is left: %w", b.dir, err)
	}
	return os.RemoveAll(b.dir)
}

// output runs a program to its end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	if name == "git" {
		args = append([]string{"-c", "safe.directory=*"}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// where queries a worker for its directory: the project in the view.
func where(ctx context.Context, s *session) (string, error) {
	r, err := s.do(ctx, work.Request{Op: "where"})
	return r.Text, err
}
