package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/lockd/table"
)

// office is the lock table of the daemon, without the way to it. Leases stay
// until they are given up.
type office struct {
	mu sync.Mutex
	t  *table.Table
}

const space = "/srv/ws"

func newOffice(t *testing.T, agents ...string) *office {
	o := &office{t: table.New(0)}
	for _, a := range agents {
		_, err := o.t.Hello(space, a, "id-"+a, "secret-"+a)
		require.NoError(t, err)
	}
	return o
}

type counter struct {
	o     *office
	agent string
}

func (c counter) Acquire(_ context.Context, r LockRequest) (fusefs.Ticket, error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	req := table.Request{Workspace: space, Holder: c.agent, Session: "id-" + c.agent, Op: r.Op, Pid: r.Pid}
	for _, p := range r.Paths {
		req.Keys = append(req.Keys, table.Key{Path: p, Mode: table.Write})
	}
	for _, p := range r.Trees {
		req.Keys = append(req.Keys, table.Key{Path: p, Tree: true, Mode: table.Write})
	}
	_, err := c.o.t.Acquire(req)
	var conflict *table.ConflictError
	switch {
	case errors.As(err, &conflict):
		return nil, &LockedError{Path: conflict.Path, Holder: conflict.Holder}
	case err != nil:
		return nil, err
	}
	return noTicket{}, nil
}

// giveUp ends all leases of an agent.
func (o *office) giveUp(t require.TestingT, agent string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var paths []string
	for _, l := range o.t.List(table.Filter{Workspace: space, Holder: agent}) {
		paths = append(paths, l.Path)
	}
	require.NoError(t, o.t.Release(space, agent, "id-"+agent, paths...))
}

// owned is what is held below a directory: "path holder", trees with a slash.
func (o *office) owned(below string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, l := range o.t.List(table.Filter{Workspace: space}) {
		if rel, ok := strings.CutPrefix(l.Path, below+"/"); ok {
			if l.Tree {
				rel += "/"
			}
			out = append(out, rel+" "+l.Holder)
		}
	}
	slices.Sort(out)
	return out
}

// object is a file, a directory or a link in the model of a worktree. Two names
// of one file are one object.
type object struct {
	dir  bool
	link bool
	text string
}

// side is one agent's worktree as it ought to be, and its leases.
type side struct {
	*agent
	name  string
	tree  map[string]*object
	paths map[string]bool // leased paths: true with all below
}

func (s *side) isDir(p string) bool  { return p == "." || s.tree[p] != nil && s.tree[p].dir }
func (s *side) isFile(p string) bool { return s.tree[p] != nil && !s.tree[p].dir && !s.tree[p].link }
func (s *side) free(p string) bool   { return s.tree[p] == nil && s.isDir(filepath.Dir(p)) }
func (s *side) names(p string) []string {
	var out []string
	for q, o := range s.tree {
		if o == s.tree[p] {
			out = append(out, q)
		}
	}
	return out
}

func (s *side) empty(p string) bool {
	for q := range s.tree {
		if strings.HasPrefix(q, p+"/") {
			return false
		}
	}
	return true
}

// move takes p and what is below to q.
func (s *side) move(p, q string) {
	moved := map[string]*object{}
	for n, o := range s.tree {
		if n == p || strings.HasPrefix(n, p+"/") {
			moved[q+n[len(p):]] = o
			delete(s.tree, n)
		}
	}
	for n, o := range moved {
		s.tree[n] = o
	}
}

// deed is something an agent tries: what it has to lease, how it is done and
// the tree after it. A nil do means that the operation is not possible now.
type deed struct {
	paths, trees []string
	do           func(at func(string) string) error
	then         func()
}

func one(paths ...string) []string { return paths }

// deeds are what agents do to files. Only what succeeds without leases is in
// here: errors of the file system are compared elsewhere.
func deeds(s *side, op, p, q, text string) deed {
	switch o := s.tree[p]; op {
	case "write":
		switch {
		case s.isFile(p):
			return deed{s.names(p), nil, func(at func(string) string) error { return os.WriteFile(at(p), []byte(text), 0o644) }, func() { o.text = text }}
		case s.free(p):
			return deed{one(p), nil, func(at func(string) string) error { return os.WriteFile(at(p), []byte(text), 0o644) },
				func() { s.tree[p] = &object{text: text} }}
		}
	case "append":
		if s.isFile(p) {
			return deed{s.names(p), nil, func(at func(string) string) error { return appendTo(at(p), text) }, func() { o.text += text }}
		}
	case "truncate":
		if s.isFile(p) {
			return deed{s.names(p), nil, func(at func(string) string) error { return os.Truncate(at(p), 0) }, func() { o.text = "" }}
		}
	case "chmod":
		if s.isFile(p) {
			return deed{s.names(p), nil, func(at func(string) string) error { return os.Chmod(at(p), 0o600) }, func() {}}
		}
	case "mkdir":
		if s.free(p) {
			return deed{nil, nil, func(at func(string) string) error { return os.Mkdir(at(p), 0o755) }, func() { s.tree[p] = &object{dir: true} }}
		}
	case "rmdir":
		if s.isDir(p) && s.empty(p) {
			return deed{one(p), nil, func(at func(string) string) error { return unix.Rmdir(at(p)) }, func() { delete(s.tree, p) }}
		}
	case "unlink":
		if o != nil && !o.dir {
			return deed{one(p), nil, func(at func(string) string) error { return unix.Unlink(at(p)) }, func() { delete(s.tree, p) }}
		}
	case "link":
		if s.isFile(p) && s.free(q) {
			return deed{append(s.names(p), q), nil, func(at func(string) string) error { return os.Link(at(p), at(q)) }, func() { s.tree[q] = o }}
		}
	case "symlink":
		if s.free(q) {
			return deed{one(q), nil, func(at func(string) string) error { return os.Symlink(text, at(q)) }, func() { s.tree[q] = &object{link: true, text: text} }}
		}
	case "rename":
		return renameDeed(s, p, q)
	case "exchange":
		a, b := o, s.tree[q]
		if a == nil || b == nil || a == b || strings.HasPrefix(p, q+"/") || strings.HasPrefix(q, p+"/") {
			break
		}
		d := deed{do: func(at func(string) string) error {
			return unix.Renameat2(unix.AT_FDCWD, at(p), unix.AT_FDCWD, at(q), unix.RENAME_EXCHANGE)
		}, then: func() { s.move(p, "?"); s.move(q, p); s.move("?", q) }}
		d.keys(a.dir || b.dir, p, q)
		return d
	}
	return deed{}
}

func (d *deed) keys(tree bool, paths ...string) {
	if tree {
		d.trees = paths
	} else {
		d.paths = paths
	}
}

func renameDeed(s *side, p, q string) deed {
	o, over := s.tree[p], s.tree[q]
	switch {
	case o == nil, p == q, o == over, over == nil && !s.free(q), strings.HasPrefix(q, p+"/"):
		return deed{}
	case over != nil && (o.dir != over.dir || over.dir && !s.empty(q)):
		return deed{}
	}
	d := deed{do: func(at func(string) string) error { return unix.Rename(at(p), at(q)) }, then: func() { delete(s.tree, q); s.move(p, q) }}
	d.keys(o.dir, p, q)
	return d
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// inTheWay reports whether a lease of another agent refuses a deed.
func inTheWay(other *side, d deed) bool {
	for held, tree := range other.paths {
		for _, p := range d.paths {
			if p == held || tree && strings.HasPrefix(p, held+"/") {
				return true
			}
		}
		for _, p := range d.trees {
			if p == held || strings.HasPrefix(held, p+"/") || tree && strings.HasPrefix(p, held+"/") {
				return true
			}
		}
	}
	return false
}

// Two agents work in two worktrees of one repository, with one lock table: a model predicts every
// EBUSY and every grant, no agent ever holds what another holds, and each worktree has what its
// agent was allowed to put there.
func TestTwoViewsAndOneLockTable(t *testing.T) {
	needRoot(t)
	o := newOffice(t, "one", "two")
	pair := make([]*agent, 0, 2)
	for _, name := range []string{"one", "two"} {
		b := &book{held: map[string]string{}}
		pair = append(pair, mountedWith(t, b, name, policy.Rules{}, map[string]string{"readme": "text\n"}, func(c *Config) {
			c.Locker = counter{o, name}
		}))
	}
	run, busy, granted := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		top := fmt.Sprint("run", run)
		sides := make([]*side, 2)
		for i, a := range pair {
			sides[i] = &side{agent: a, name: []string{"one", "two"}[i], tree: map[string]*object{}, paths: map[string]bool{}}
			require.NoError(rt, os.Mkdir(filepath.Join(a.mnt, top), 0o755))
			for _, d := range []string{"d", "e", "d/s"} {
				require.NoError(rt, os.Mkdir(filepath.Join(a.mnt, top, d), 0o755))
				sides[i].tree[d] = &object{dir: true}
			}
			for _, f := range []string{"a", "d/x", "d/s/y"} { // behind the view, before any look-up: no lease
				require.NoError(rt, os.WriteFile(filepath.Join(filepath.Dir(a.mnt), "back", top, f), []byte(f), 0o644))
				sides[i].tree[f] = &object{text: f}
			}
		}
		for range rapid.IntRange(10, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, 1).Draw(rt, "agent")
			me, other := sides[i], sides[1-i]
			path := rapid.SampledFrom([]string{"a", "d/x", "d", "e", "d/s/y", "d/s", "b", "e/x", "d/y", "e/s"})
			op := rapid.SampledFrom([]string{
				"rename", "write", "append", "unlink", "exchange", "link", "mkdir", "rmdir", "truncate", "chmod", "symlink", "give up",
			}).Draw(rt, "op")
			p, q, text := path.Draw(rt, "p"), path.Draw(rt, "q"), rapid.StringN(0, 9, 20).Draw(rt, "text")
			if op == "give up" {
				o.giveUp(rt, me.name)
				me.paths = map[string]bool{}
				continue
			}
			if op == "symlink" {
				text = "to"
			}
			d := deeds(me, op, p, q, text)
			if d.do == nil {
				continue
			}
			what := fmt.Sprintf("%s: %s %s %s, the other holds %v", me.name, op, p, q, other.paths)
			err := d.do(func(p string) string { return filepath.Join(me.mnt, top, p) })
			if inTheWay(other, d) {
				busy++
				require.ErrorIs(rt, err, syscall.EBUSY, what)
			} else {
				granted++
				require.NoError(rt, err, what)
				d.then()
				for _, p := range d.paths {
					if _, held := me.paths[p]; !held { // a tree stays one
						me.paths[p] = false
					}
				}
				for _, p := range d.trees {
					me.paths[p] = true
				}
			}
			require.Equal(rt, heldBy(sides), o.owned(top), what)
		}
		for _, s := range sides {
			want := map[string]string{}
			for p, ob := range s.tree {
				want[p] = fmt.Sprint(ob.dir, ob.link, " ", ob.text)
			}
			require.Equal(rt, want, found(rt, filepath.Join(s.mnt, top)), "%s through the view", s.name)
			require.Equal(rt, want, found(rt, filepath.Join(filepath.Dir(s.mnt), "back", top)), "%s on the disk", s.name)
			o.giveUp(rt, s.name)
		}
	})
	require.Greater(t, busy, run/2, "the agents met")
	require.Greater(t, granted, 5*busy/10, "and not only met")
}

func heldBy(sides []*side) []string {
	var out []string
	for _, s := range sides {
		for p, tree := range s.paths {
			if tree {
				p += "/"
			}
			out = append(out, p+" "+s.name)
		}
	}
	slices.Sort(out)
	return out
}

func found(t require.TestingT, root string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		text := ""
		switch {
		case e.Type() == os.ModeSymlink:
			text, err = os.Readlink(p)
		case !e.IsDir():
			var b []byte
			b, err = os.ReadFile(p)
			text = string(b)
		}
		out[p[len(root)+1:]] = fmt.Sprint(e.IsDir(), e.Type() == os.ModeSymlink, " ", text)
		return err
	}))
	return out
}
