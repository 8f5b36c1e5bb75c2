package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// book is a lock table of one process: who holds which path.
type book struct {
	mu   sync.Mutex
	held map[string]string // path -> holder
	reqs []LockRequest
	err  error
}

// leases is who holds what just now.
func (b *book) leases() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.held)
}

type page struct {
	b     *book
	agent string
}

func (p page) Acquire(ctx context.Context, r LockRequest) (fusefs.Ticket, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.reqs = append(p.b.reqs, r)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.b.err != nil {
		return nil, p.b.err
	}
	all := append(slices.Clone(r.Paths), r.Trees...)
	for _, path := range all {
		if h, ok := p.b.held[path]; ok && h != p.agent {
			return nil, &LockedError{Path: path, Holder: h, Since: time.Unix(1000, 0)}
		}
	}
	for _, path := range all {
		p.b.held[path] = p.agent
	}
	return noTicket{}, nil
}

type setup struct {
	*Guard
	book    *book
	denials []Denial
}

type tester interface {
	require.TestingT
	Helper()
}

func newGuard(t tester, rules policy.Rules, change ...func(*Config)) *setup {
	t.Helper()
	set, err := policy.Compile(rules)
	require.NoError(t, err)
	s := &setup{book: &book{held: map[string]string{}}}
	cfg := Config{Agent: "a", Locker: page{s.book, "a"}, GitFile: true, OnDenial: func(d Denial) { s.denials = append(s.denials, d) }}
	for _, c := range change {
		c(&cfg)
	}
	s.Guard, err = New(cfg, set)
	require.NoError(t, err)
	return s
}

var caller = fusefs.Caller{Pid: 7, Uid: 1000, Gid: 1000}

func file(path string) fusefs.Target { return fusefs.Target{Path: path} }
func dir(path string) fusefs.Target  { return fusefs.Target{Path: path, Dir: true} }

var writeOps = []fusefs.Op{
	fusefs.OpOpenWrite, fusefs.OpCreate, fusefs.OpMknod, fusefs.OpSymlink, fusefs.OpUnlink, fusefs.OpSetattr,
	fusefs.OpFallocate, fusefs.OpCopyRange, fusefs.OpSetxattr, fusefs.OpRemovexattr, fusefs.OpIoctl, fusefs.OpMkdir, fusefs.OpRmdir,
}

var readOps = []fusefs.Op{fusefs.OpOpenRead, fusefs.OpReadlink, fusefs.OpGetxattr, fusefs.OpListxattr}

// Every operation against every class of rule.
func TestEveryOperationAgainstEveryRule(t *testing.T) {
	rules := policy.Rules{Read: []string{"r"}, Write: []string{"w"}, Ask: []string{"k"}, Deny: []string{"d"}, Hide: []string{"h"}}
	for _, tc := range []struct {
		path                string
		read, write         syscall.Errno
		readCode, writeCode string
	}{
		{"w/x", 0, 0, "", ""},
		{"r/x", 0, syscall.EACCES, "", CodeUndeclaredWrite},
		{"k/x", syscall.EACCES, syscall.EACCES, CodeNotApproved, CodeNotApproved},
		{"d/x", syscall.EACCES, syscall.EACCES, CodeUndeclaredRead, CodeUndeclaredWrite},
		{"h/x", syscall.ENOENT, syscall.ENOENT, "", ""},
		{"u/x", syscall.EACCES, syscall.EACCES, CodeUndeclaredRead, CodeUndeclaredWrite},
		{".git", 0, syscall.EACCES, "", CodeUndeclaredWrite},
		{"w/../d", syscall.EACCES, syscall.EACCES, CodePathTraversal, CodePathTraversal},
		{"/w", syscall.EACCES, syscall.EACCES, CodePathTraversal, CodePathTraversal},
		{"w/a\x00b", syscall.EACCES, syscall.EACCES, CodePathTraversal, CodePathTraversal},
		{"w/./a", syscall.EACCES, syscall.EACCES, CodePathTraversal, CodePathTraversal},
	} {
		check := func(op fusefs.Op, errno, want syscall.Errno, g *setup, code string) {
			require.Equal(t, want, errno, "%s %q", op, tc.path)
			if code == "" {
				require.Empty(t, g.denials, "%s %q", op, tc.path)
				return
			}
			require.Len(t, g.denials, 1, "%s %q", op, tc.path)
			d := g.denials[0]
			require.Equal(t, []string{code, tc.path, string(op), "EACCES"}, []string{d.Code, d.Path, d.Op, d.Errno})
			require.NotEmpty(t, d.Hint)
			require.EqualValues(t, 7, d.Pid)
			require.Empty(t, g.book.reqs, "no lease is requested for what the policy refuses")
		}
		for _, op := range readOps {
			g := newGuard(t, rules)
			check(op, g.Read(t.Context(), caller, op, tc.path), tc.read, g, tc.readCode)
		}
		for _, op := range writeOps {
			g := newGuard(t, rules)
			tk, errno := g.Write(t.Context(), caller, op, file(tc.path))
			require.Equal(t, errno == 0, tk != nil)
			check(op, errno, tc.write, g, tc.writeCode)
		}
		for _, op := range []fusefs.Op{fusefs.OpRename, fusefs.OpExchange, fusefs.OpLink} {
			for _, targets := range [][]fusefs.Target{{file("w/ok"), file(tc.path)}, {file(tc.path), file("w/ok")}} {
				g := newGuard(t, rules)
				_, errno := g.Write(t.Context(), caller, op, targets...)
				check(op, errno, tc.write, g, tc.writeCode)
			}
		}
	}
}

func TestNamesStayVisibleUnlessHidden(t *testing.T) {
	g := newGuard(t, policy.Rules{Read: []string{"r"}, Deny: []string{"d"}, Hide: []string{"h"}})
	for path, want := range map[string]bool{"": true, "r": true, "d/x": true, "u": true, "h": false, "h/x": false, ".h.swp": false} {
		require.Equal(t, want, g.Visible(path, false), path)
	}
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpReaddir, "d"))
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpReaddir, "u"))
	require.Equal(t, syscall.ENOENT, g.Read(t.Context(), caller, fusefs.OpReaddir, "h"))
}

// TestWhatIsHiddenIsNotReported: CodeHidden counts as a refusal, and is no denial that the agent
// could read of.
func TestWhatIsHiddenIsNotReported(t *testing.T) {
	g := newGuard(t, policy.Rules{Read: []string{"r"}, Hide: []string{"h"}})
	for i := range int64(3) {
		require.Equal(t, syscall.ENOENT, g.Read(t.Context(), caller, fusefs.OpOpenRead, "h/x"))
		require.Equal(t, i+1, g.Stats().ReadDenied)
	}
	require.NotZero(t, g.Read(t.Context(), caller, fusefs.OpOpenRead, "u"))
	for _, d := range g.denials {
		require.NotEqual(t, CodeHidden, d.Code)
		require.NotContains(t, d.Path, "h/x")
	}
	require.Len(t, g.denials, 1, "the other one is reported")
}

func TestLeases(t *testing.T) {
	ignored := func(c *Config) {
		c.Ignore = func(p string, _ bool) bool { return strings.HasPrefix(p, "node_modules") }
		c.Exempt = []string{"*.log", "cache/**"}
	}
	tree := func(p string) fusefs.Target { return fusefs.Target{Path: p, Dir: true, Tree: true} }
	for _, tc := range []struct {
		name         string
		op           fusefs.Op
		targets      []fusefs.Target
		paths, trees []string
	}{
		{"a file", fusefs.OpCreate, []fusefs.Target{file("a")}, []string{"a"}, nil},
		{"rename takes both, sorted", fusefs.OpRename, []fusefs.Target{file("b"), file("a")}, []string{"a", "b"}, nil},
		{"a temporary name is its destination", fusefs.OpCreate, []fusefs.Target{file("d/a.go.tmp.12.af")}, []string{"d/a.go"}, nil},
		{"and its rename is one lease", fusefs.OpRename, []fusefs.Target{file("a.tmp.12.af"), file("a")}, []string{"a"}, nil},
		{"sed's file has none", fusefs.OpCreate, []fusefs.Target{file("sedAbCdEf")}, nil, nil},
		{"its rename has one", fusefs.OpRename, []fusefs.Target{file("sedAbCdEf"), file("a")}, []string{"a"}, nil},
		{"vim's probe has none", fusefs.OpCreate, []fusefs.Target{file("4913")}, nil, nil},
		{"ignored", fusefs.OpCreate, []fusefs.Target{file("node_modules/x")}, nil, nil},
		{"exempt", fusefs.OpCreate, []fusefs.Target{file("d/x.log")}, nil, nil},
		{"exempt tree", fusefs.OpRename, []fusefs.Target{tree("cache"), tree("cache2")}, nil, []string{"cache2"}},
		{"making a directory", fusefs.OpMkdir, []fusefs.Target{dir("d")}, nil, nil},
		{"removing one", fusefs.OpRmdir, []fusefs.Target{dir("d")}, []string{"d"}, nil},
		{"moving one", fusefs.OpRename, []fusefs.Target{tree("e"), tree("d")}, nil, []string{"d", "e"}},
		{"times of a directory", fusefs.OpSetattr, []fusefs.Target{dir("d")}, nil, nil},
		{"the root", fusefs.OpSetattr, []fusefs.Target{dir("")}, nil, nil},
		{"a nameless file", fusefs.OpTmpfile, []fusefs.Target{dir("d")}, nil, nil},
		{"a link takes both names", fusefs.OpLink, []fusefs.Target{file("n"), {Path: "m", Source: true}}, []string{"m", "n"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuard(t, policy.Rules{}, ignored)
			tk, errno := g.Write(t.Context(), caller, tc.op, tc.targets...)
			require.Zero(t, errno)
			require.NotNil(t, tk)
			if tc.paths == nil && tc.trees == nil {
				require.Empty(t, g.book.reqs)
				return
			}
			require.Equal(t, []LockRequest{{Paths: tc.paths, Trees: tc.trees, Op: string(tc.op), Pid: 7}}, g.book.reqs)
		})
	}
}

// A copy without a name needs room only: the rules apply when it gets its name.
func TestACopyWithoutANameNeedsRoomOnly(t *testing.T) {
	full := ""
	g := newGuard(t, policy.Rules{Read: []string{"**"}}, func(c *Config) { c.Quota = func(fusefs.Op) string { return full } })
	copied := fusefs.Target{Dir: true, Source: true}
	_, errno := g.Write(t.Context(), caller, fusefs.OpTmpfile, dir(""))
	require.Equal(t, syscall.EACCES, errno)
	_, errno = g.Write(t.Context(), caller, fusefs.OpTmpfile, copied)
	require.Zero(t, errno)
	full = "full"
	_, errno = g.Write(t.Context(), caller, fusefs.OpTmpfile, copied)
	require.Equal(t, syscall.EDQUOT, errno)
	_, errno = g.Write(t.Context(), caller, fusefs.OpLink, file("a"), fusefs.Target{Path: "b", Source: true})
	require.Equal(t, syscall.EACCES, errno)
}

func TestLeaseRefusals(t *testing.T) {
	g := newGuard(t, policy.Rules{})
	g.book.held["a"] = "b"
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("a"))
	require.Equal(t, syscall.EBUSY, errno)
	require.Equal(t, "b", g.denials[0].Holder)
	require.Equal(t, CodeFileLocked, g.denials[0].Code)
	require.Equal(t, time.Unix(1000, 0), g.denials[0].Since)

	g.book.err = errors.New("connection refused")
	_, errno = g.Write(t.Context(), caller, fusefs.OpCreate, file("c"))
	require.Equal(t, syscall.EAGAIN, errno)
	require.Equal(t, CodeLockdUnavailable, g.denials[1].Code)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errno = g.Write(ctx, caller, fusefs.OpCreate, file("c"))
	require.Equal(t, syscall.EINTR, errno)

	st := g.Stats()
	require.EqualValues(t, 1, st.LockConflicts)
	require.EqualValues(t, 1, st.LockdUnavailable)
	require.Zero(t, st.WriteDenied)
}

// Feature: multi-agent-workspaces, Property 29: Tool-Enforced File Locking
func TestWriteAcquiresTheLockFirstOrFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &book{held: map[string]string{}}
		guards := map[string]*setup{}
		for _, a := range []string{"a", "b", "c"} {
			guards[a] = newGuard(t, policy.Rules{}, func(c *Config) { c.Agent, c.Locker = a, page{b, a} })
		}
		name := rapid.SampledFrom([]string{"f", "g", "d/f", "f~", ".g.swp", "f.tmp.1.a"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			agent := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "agent")
			op := rapid.SampledFrom(writeOps[:6]).Draw(t, "op")
			path := name.Draw(t, "path")
			key, _ := (&policy.Temps{}).Classify(path)
			holder, busy := b.held[key]
			tk, errno := guards[agent].Write(context.Background(), caller, op, file(path))
			if busy && holder != agent {
				require.Equal(t, syscall.EBUSY, errno)
				require.Nil(t, tk)
				require.Equal(t, holder, b.held[key])
				continue
			}
			require.Zero(t, errno)
			require.NotNil(t, tk)
			require.Equal(t, agent, b.held[key], "the write may continue only with the lock held")
		}
	})
}

type askerFunc func(context.Context, Request) (Verdict, error)

func (f askerFunc) Ask(ctx context.Context, r Request) (Verdict, error) { return f(ctx, r) }

func TestAsk(t *testing.T) {
	var asked []Request
	answer := error(nil)
	g := newGuard(t, policy.Rules{Ask: []string{"k*"}}, func(c *Config) {
		c.Asker = askerFunc(func(ctx context.Context, r Request) (Verdict, error) {
			asked = append(asked, r)
			if answer == nil {
				return Verdict{Allow: true}, ctx.Err()
			}
			return Verdict{Reason: "not today"}, answer
		})
	})
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpOpenRead, "k1"))
	_, errno := g.Write(t.Context(), caller, fusefs.OpRename, file("k1"), file("k2"))
	require.Zero(t, errno)
	require.Equal(t, []Request{
		{Agent: "a", Op: "open", Rule: `ask "k*"`, Paths: []string{"k1"}, Content: true, Pid: 7},
		{Agent: "a", Op: "rename", Rule: `ask "k*"`, Write: true, Paths: []string{"k1", "k2"}, Pid: 7},
	}, asked)
	answer = errors.New("no")
	require.Equal(t, syscall.EACCES, g.Read(t.Context(), caller, fusefs.OpOpenRead, "k1"))
	require.Equal(t, CodeNotApproved, g.denials[0].Code)
	require.Equal(t, "not today", g.denials[0].Hint)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, syscall.EINTR, g.Read(ctx, caller, fusefs.OpOpenRead, "k1"))
}

// TestAQuestionAboutATemporaryNameIsAboutItsFile: one edit that writes a file aside and renames it is about one name.
func TestAQuestionAboutATemporaryNameIsAboutItsFile(t *testing.T) {
	var asked [][]string
	g := newGuard(t, policy.Rules{Write: []string{"**"}, Ask: []string{"d/**", "e/*~"}}, func(c *Config) {
		c.Tracked = func(path string) bool { return path == "d/tracked~" }
		c.Asker = askerFunc(func(_ context.Context, r Request) (Verdict, error) {
			asked = append(asked, r.Paths)
			return Verdict{Allow: true}, nil
		})
	})
	write := func(op fusefs.Op, targets ...fusefs.Target) {
		t.Helper()
		tk, errno := g.Write(t.Context(), caller, op, targets...)
		require.Zero(t, errno)
		tk.Done()
	}
	write(fusefs.OpCreate, file("d/f.tmp.12.abcdef012345"))
	write(fusefs.OpRename, file("d/f.tmp.12.abcdef012345"), file("d/f"))
	write(fusefs.OpCreate, file("d/.f.swp"))
	write(fusefs.OpRename, file("d/f~"), file("d/g"))
	require.Equal(t, [][]string{{"d/f"}, {"d/f"}, {"d/f"}, {"d/f", "d/g"}}, asked)

	// A name that git tracks, a directory, and a name whose file needs no answer are in questions as they are.
	asked = nil
	write(fusefs.OpOpenWrite, file("d/tracked~"))
	write(fusefs.OpMkdir, fusefs.Target{Path: "d/f~", Dir: true})
	write(fusefs.OpCreate, file("e/f~"))
	require.Equal(t, [][]string{{"d/tracked~"}, {"d/f~"}, {"e/f~"}}, asked)
}

func TestMovingDirectories(t *testing.T) {
	top := t.TempDir()
	for _, p := range []string{"plain/a/b", "keys/a/x.pem", "src/gen/x", "big/ask.me"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, p)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(top, p), nil, 0o600))
	}
	require.NoError(t, os.Symlink("/etc", filepath.Join(top, "plain/link")))
	root, err := os.Open(top)
	require.NoError(t, err)
	defer root.Close()
	for _, tc := range []struct {
		name     string
		rules    policy.Rules
		op       fusefs.Op
		from, to string
		want     syscall.Errno
	}{
		{"no rules", policy.Rules{}, fusefs.OpRename, "plain", "moved", 0},
		{"nothing denied in it", policy.Rules{Deny: []string{"*.pem"}}, fusefs.OpRename, "plain", "moved", 0},
		{"something denied in it", policy.Rules{Deny: []string{"*.pem"}}, fusefs.OpRename, "keys", "moved", syscall.EACCES},
		{"something would be denied there", policy.Rules{Deny: []string{"moved/a/b"}}, fusefs.OpRename, "plain", "moved", syscall.EACCES},
		{"something hidden in it", policy.Rules{Hide: []string{"x.pem"}}, fusefs.OpRename, "keys", "moved", syscall.ENOENT},
		{"something to ask about", policy.Rules{Ask: []string{"ask.me"}}, fusefs.OpRename, "big", "moved", syscall.EACCES},
		{"exchange checks both", policy.Rules{Deny: []string{"*.pem"}}, fusefs.OpExchange, "plain", "keys", syscall.EACCES},
		{"into a narrower place", policy.Rules{Write: []string{"src/**", "plain/**", "!src/a"}}, fusefs.OpRename, "plain", "src/plain", 0},
		{"out of what may be written", policy.Rules{Write: []string{"src/**"}}, fusefs.OpRename, "src/gen", "gen", syscall.EACCES},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuard(t, tc.rules, func(c *Config) { c.RootFD = int(root.Fd()) })
			defer func() { require.NoError(t, g.Close()) }()
			tgt := func(p string) fusefs.Target { return fusefs.Target{Path: p, Dir: true, Tree: true} }
			_, errno := g.Write(t.Context(), caller, tc.op, tgt(tc.from), tgt(tc.to))
			require.Equal(t, tc.want, errno)
		})
	}
	t.Run("unproven without a listing", func(t *testing.T) {
		g := newGuard(t, policy.Rules{Deny: []string{"*.pem"}})
		_, errno := g.Write(t.Context(), caller, fusefs.OpRename, fusefs.Target{Path: "plain", Dir: true, Tree: true}, fusefs.Target{Path: "x", Dir: true, Tree: true})
		require.Equal(t, syscall.EACCES, errno)
	})
}

func TestQuota(t *testing.T) {
	g := newGuard(t, policy.Rules{}, func(c *Config) {
		c.Quota = func(op fusefs.Op) string { return "no room to " + string(op) }
	})
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("a"))
	require.Equal(t, syscall.EDQUOT, errno)
	require.Equal(t, CodeQuota, g.denials[0].Code)
	require.Equal(t, "no room to create", g.denials[0].Hint)
	_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file("a"))
	require.Zero(t, errno, "what makes room is allowed")
}

// The averages and counters of seed 002: they follow the formula, and counts
// never decrease.
func TestCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGuard(t, policy.Rules{})
		var reads, writes, avgR, avgW int64
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			write, ns := rapid.Bool().Draw(t, "write"), rapid.Int64Range(0, 1e9).Draw(t, "ns")
			g.Count(fusefs.OpCreate, write, syscall.Errno(rapid.IntRange(0, 2).Draw(t, "errno")), ns)
			if write {
				writes, avgW = writes+1, (avgW*9+ns)/10
			} else {
				reads, avgR = reads+1, (avgR*9+ns)/10
			}
			s := g.Stats()
			require.Equal(t, []int64{reads, writes, avgR, avgW}, []int64{s.ReadCount, s.WriteCount, s.AvgReadLatency, s.AvgWriteLatency})
		}
	})
}

// TestEveryDenialIsReported: which of them are recorded, and how, is not the guard's to decide.
func TestEveryDenialIsReported(t *testing.T) {
	g := newGuard(t, policy.Rules{Deny: []string{"*"}})
	for i := range 1000 {
		g.Read(t.Context(), caller, fusefs.OpOpenRead, fmt.Sprint(i%10))
	}
	require.Len(t, g.denials, 1000)
	require.EqualValues(t, 1000, g.Stats().ReadDenied)
}

func TestSetPolicyHoldsFromTheNextCall(t *testing.T) {
	g := newGuard(t, policy.Rules{})
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("a"))
	require.Zero(t, errno)
	set, err := policy.Compile(policy.Rules{Read: []string{"**"}})
	require.NoError(t, err)
	g.SetPolicy(set)
	_, errno = g.Write(t.Context(), caller, fusefs.OpCreate, file("a"))
	require.Equal(t, syscall.EACCES, errno)
}

func TestNewRefusesGaps(t *testing.T) {
	set, err := policy.Compile(policy.Rules{})
	require.NoError(t, err)
	l := page{&book{}, "a"}
	for _, c := range []Config{{Locker: l}, {Agent: "a"}} {
		_, err := New(c, set)
		require.ErrorIs(t, err, ErrConfig)
	}
	_, err = New(Config{Agent: "a", Locker: l}, nil)
	require.ErrorIs(t, err, ErrConfig)
	_, err = New(Config{Agent: "a", Locker: l, Exempt: []string{"["}}, set)
	require.ErrorContains(t, err, "exempt[0]")
}

func TestXattr(t *testing.T) {
	g := newGuard(t, policy.Rules{Read: []string{"a"}}, func(c *Config) {
		c.LeaseInfo = func(p string) (string, bool) { return "bob", p == "a" }
	})
	v, ok := g.Xattr("a", "user.polis.lease")
	require.True(t, ok)
	require.Equal(t, "bob", string(v))
	v, ok = g.Xattr("a", "user.polis.policy")
	require.True(t, ok)
	require.Equal(t, `read=allow write=deny read "a"`, string(v))
	_, ok = g.Xattr("b", "user.polis.lease")
	require.False(t, ok)
}

func TestTheHintOfALockNamesWhoHasIt(t *testing.T) {
	require.Contains(t, hint(Denial{Code: CodeFileLocked, Holder: "bob"}), "agent bob holds it")
	require.Contains(t, hint(Denial{Code: CodeFileLocked, Holder: "user:0"}), "the administrator has locked it")
}

func TestWhy(t *testing.T) {
	now := time.Date(2024, 5, 1, 12, 0, 30, 0, time.UTC)
	w := NewWhy()
	require.Equal(t, "Nothing was refused.\n", string(w.Text()))
	require.Equal(t, "[]\n", string(w.JSON()))
	for i := range 70 {
		w.Add(Denial{Time: now, Op: "open", Path: fmt.Sprint("p", i), Code: CodeUndeclaredRead, Errno: "EACCES"})
	}
	w.Add(Denial{Time: now, Op: "system call", Path: "mount", Code: "SYSCALL_DENIED", Errno: "EPERM", Count: 7, Program: "a\nb"})
	require.Contains(t, string(w.Text()), "12:00:30  system call of mount was refused: SYSCALL_DENIED (EPERM), 7 times\n  asked by:  \"a\\nb\"\n\n")
	w.Add(Denial{Time: now, Op: "open-write", Path: "a\nb", Code: CodeFileLocked, Errno: "EBUSY", Holder: "bob", Since: now.Add(-12 * time.Second), Hint: "wait"})
	require.Len(t, w.Entries(), WhySize)
	require.Contains(t, string(w.Text()), "\n\n8 other refusals are not listed here, the last one at 12:00:30: the receipts on the host have them\n")
	text := string(w.Text())
	require.True(t, strings.HasPrefix(text, "12:00:30  open-write of \"a\\nb\" was refused: FILE_LOCKED (EBUSY)\n"+
		"  held by:   bob, since 12:00:18 (12s at that time)\n  do next:   wait\n\n12:00:30  system call of mount"), text)
	var back []Denial
	require.NoError(t, json.Unmarshal(w.JSON(), &back))
	require.Equal(t, w.Entries(), back)
}

// TestAFloodOfRefusalsDisplacesItselfInWhy: neither equal ones nor a hundred thousand others of one directory hide one that is
// not like them.
func TestAFloodOfRefusalsDisplacesItselfInWhy(t *testing.T) {
	now := time.Date(2024, 5, 1, 12, 0, 30, 0, time.UTC)
	denied := func(path string) Denial {
		now = now.Add(time.Millisecond)
		return Denial{Time: now, Op: "open", Path: path, Code: CodeUndeclaredRead, Rule: "deny", Errno: "EACCES"}
	}
	w := NewWhy()
	n := 0
	add := func(d Denial) bool { n++; return w.Add(d) }
	for i := range 100_000 {
		if i == 50_000 {
			require.False(t, add(denied("secret/key")))
			require.True(t, add(denied("secret/key")))
		}
		add(denied(fmt.Sprint("flood/", i)))
		require.Equal(t, i > 0, add(denied("same")))
	}
	list := w.Entries()
	require.Len(t, list, WhySize)
	require.Equal(t, "same", list[0].Path)
	require.Equal(t, 100_000, list[0].Count)
	i := slices.IndexFunc(list, func(d Denial) bool { return d.Path == "secret/key" })
	require.GreaterOrEqual(t, i, 0, "it is kept")
	require.Equal(t, 2, list[i].Count)
	require.Equal(t, time.Millisecond, list[i].Time.Sub(list[i].First))
	sum, last := w.More()
	require.True(t, last.Before(now))
	for _, d := range list {
		sum += max(d.Count, 1)
	}
	require.Equal(t, n, sum, "what is not listed is counted")
	require.Contains(t, string(w.Text()), "open of secret/key was refused: UNDECLARED_READ (EACCES), 2 times\n  since:     12:02:10\n")
	require.Len(t, w.classes, 3)
}

// A rule that denies is shown as such; the codes do not change.
func TestDenialsByRuleHaveTheirOwnName(t *testing.T) {
	rules := policy.Rules{Read: []string{"r"}, Write: []string{"w", "w/deny"}, Deny: []string{"w/deny"}}
	for path, want := range map[string][2]string{"w/deny/x": {ShownDeniedRead, ShownDeniedWrite}, "u/x": {CodeUndeclaredRead, CodeUndeclaredWrite}, "r/x": {"", CodeUndeclaredWrite}} {
		g := newGuard(t, rules)
		_ = g.Read(t.Context(), caller, fusefs.OpOpenRead, path)
		_, _ = g.Write(t.Context(), caller, fusefs.OpOpenWrite, file(path))
		var shown []string
		for _, d := range g.denials {
			require.Contains(t, []string{CodeUndeclaredRead, CodeUndeclaredWrite}, d.Code)
			require.Equal(t, d.Shown() != d.Code, strings.Contains(d.Hint, "denies"), d.Hint)
			shown = append(shown, d.Shown())
		}
		require.Equal(t, strings.Fields(want[0]+" "+want[1]), shown, path)
	}
}
