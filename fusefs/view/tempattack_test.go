package view

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// taking is a Locker of leases that another agent can take away.
type taking struct {
	mu    sync.Mutex
	taken map[string]bool
	times map[string]int // how often each was taken
}

type takenTicket struct {
	l     *taking
	times map[string]int
}

func (k *taking) Acquire(_ context.Context, r LockRequest) (fusefs.Ticket, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tk := takenTicket{k, map[string]int{}}
	for _, p := range append(slices.Clone(r.Paths), r.Trees...) {
		if k.taken[p] {
			return nil, &LockedError{Path: p, Holder: "b"}
		}
		tk.times[p] = k.times[p]
	}
	return tk, nil
}

func (k *taking) take(path string, yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taken[path] = yes; yes {
		k.times[path]++
	}
}

func (takenTicket) Done() {}

func (t takenTicket) Valid() bool {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	for p, n := range t.times {
		if t.l.times[p] != n {
			return false
		}
	}
	return true
}

// attack is an agent that uses names and open files in any order, and what it must not reach.
type attack struct {
	*tempView
	t    *rapid.T
	top  string
	lock *taking
	open []*os.File
	// token is the content that the owner gave an inode, and names the names by whose rules it may be read.
	token map[uint64]string
	names map[uint64][]string
	aside map[string]string // a temporary name, and the name of what was renamed to it
	fresh int
}

var (
	direct   = []string{"f", "g", "x"}
	tempName = []string{"n", "m", "sedAbC123"}
)

func (a *attack) path(name string) string { return a.at(a.top + "src/" + name) }

func (a *attack) stat(name string) (unix.Stat_t, bool) {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(a.back, a.top+"src", name), &st)
	return st, err == nil
}

// temp reports whether a new file of a name is a temporary one.
func (a *attack) temp(name string) bool {
	return slices.Contains(tempName, name) || a.Policy().Decide(a.top+"src/"+name, false).Write != policy.Allow
}

// learn works out by whose rules each inode is read.
func (a *attack) learn() {
	now := map[uint64][]string{}
	for _, name := range append(slices.Clone(direct), tempName...) {
		st, ok := a.stat(name)
		if !ok {
			delete(a.aside, name)
			continue
		}
		switch of := a.aside[name]; {
		case of != "":
			name = of
		case slices.Contains(tempName, name):
			continue
		}
		now[st.Ino] = append(now[st.Ino], name)
	}
	for ino, names := range now {
		a.names[ino] = names
	}
}

// saw checks what a program has read. A file that was open before a rule asked about it is read on.
func (a *attack) saw(how string, content []byte, was bool) {
	for ino, token := range a.token {
		if !strings.Contains(string(content), token) {
			continue
		}
		may := false
		for _, name := range a.names[ino] {
			d := a.Policy().DecideThrough(a.top+"src/"+name, false).Read
			may = may || d == policy.Allow || was && d == policy.Ask
		}
		if !may {
			a.t.Fatalf("%s has read %q: the rules forbid %v", how, token, a.names[ino])
		}
	}
}

// held is what must not change of a file while another agent has its lease.
func (a *attack) held() map[string]string {
	out := map[string]string{}
	for _, name := range direct {
		path := a.top + "src/" + name
		if !a.lock.taken[path] {
			continue
		}
		st, ok := a.stat(name)
		f := a.table.Look(path)
		if f != nil {
			f.Close()
		}
		if a.temp(name) && (f != nil || !ok) {
			continue // temporary files take no lease
		}
		if !ok {
			out[name] = "nothing"
			continue
		}
		for _, other := range direct {
			if o, ok := a.stat(other); ok && other != name && o.Ino == st.Ino {
				st.Ino = 0
			}
		}
		if st.Ino == 0 {
			continue // a hard link of files that the agent may write
		}
		b, err := os.ReadFile(filepath.Join(a.back, path))
		require.NoError(a.t, err)
		x := make([]byte, 10)
		n, _ := unix.Getxattr(filepath.Join(a.back, path), "user.x", x)
		out[name] = fmt.Sprint(st.Ino, " ", st.Mode, " ", string(b), " ", string(x[:max(n, 0)]))
	}
	return out
}

func (a *attack) name(label string) string {
	return rapid.SampledFrom(append(slices.Clone(direct), append(tempName, "n", "f", "f", "m")...)).Draw(a.t, label)
}

func (a *attack) rules() policy.Rules {
	var r policy.Rules
	add := func(list *[]string, label string, names ...string) {
		for _, name := range names {
			if rapid.Bool().Draw(a.t, label+" "+name) {
				*list = append(*list, a.top+"src/"+name)
			}
		}
	}
	add(&r.Read, "read", "*")
	add(&r.Write, "write", "f", "g")
	r.Write = append(r.Write, a.top+"other/z")
	if rapid.Bool().Draw(a.t, "withheld") {
		add(&r.Deny, "deny", "f")
		add(&r.Ask, "ask", "g")
		add(&r.Hide, "hide", "x")
	}
	return r
}

func (a *attack) step() {
	ops := []string{"open", "open", "create", "tmpfile", "truncate file", "chmod file", "again file", "link file", "close",
		"rename", "rename", "rename", "link", "unlink", "exchange", "noreplace", "truncate", "chmod", "xattr", "rules", "take", "give", "restart"}
	op := rapid.SampledFrom(ops).Draw(a.t, "op")
	one, two := a.name("a"), a.name("b")
	var file *os.File
	if strings.HasSuffix(op, " file") || op == "close" {
		if len(a.open) == 0 {
			return
		}
		i := rapid.IntRange(0, len(a.open)-1).Draw(a.t, "file")
		if file = a.open[i]; op == "close" {
			a.open = slices.Delete(a.open, i, i+1)
		}
	}
	a.fresh++
	flags := rapid.SampledFrom([]int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY}).Draw(a.t, "flags")
	opened := func(f *os.File, err error) {
		switch {
		case err != nil:
		case len(a.open) >= 4:
			require.NoError(a.t, f.Close())
		default:
			a.open = append(a.open, f)
		}
	}
	switch op {
	case "open":
		opened(os.OpenFile(a.path(one), flags, 0))
	case "create":
		opened(os.OpenFile(a.path(one), os.O_RDWR|os.O_CREATE, 0o644))
	case "tmpfile":
		opened(os.OpenFile(filepath.Dir(a.path(one)), os.O_RDWR|unix.O_TMPFILE, 0o644))
	case "truncate file":
		_ = file.Truncate(200 + int64(a.fresh))
	case "chmod file":
		_ = file.Chmod(0o600 + os.FileMode(a.fresh%8))
	case "again file":
		opened(os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), flags, 0))
	case "link file":
		_ = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.AT_FDCWD, a.path(one), unix.AT_SYMLINK_FOLLOW)
	case "close":
		require.NoError(a.t, file.Close())
	case "truncate":
		_ = os.Truncate(a.path(one), 200+int64(a.fresh))
	case "take", "give":
		a.lock.take(a.top+"src/"+rapid.SampledFrom([]string{"f", "g"}).Draw(a.t, "leased"), op == "take")
	case "rules":
		a.swap(a.rules())
		for _, name := range direct {
			if !a.temp(name) {
				delete(a.aside, name) // an ordinary file
			}
		}
	case "restart":
		if rapid.IntRange(0, 3).Draw(a.t, "rarely") > 0 {
			return
		}
		a.closeAll()
		a.off = !a.off && rapid.Bool().Draw(a.t, "off")
		a.again()
		for _, name := range direct { // the view knows hard links when it knows the names
			_, _ = os.Lstat(a.path(name))
		}
	default:
		a.rename(op, one, two)
	}
}

// probe reads and writes by each name and open file.
func (a *attack) probe() {
	for _, f := range a.open {
		b := make([]byte, 100)
		n, _ := f.ReadAt(b, 0)
		a.saw("an open file", b[:n], true)
		a.fresh++
		_, _ = f.WriteAt([]byte(fmt.Sprintf("w%04d", a.fresh)), 0)
	}
	for _, name := range append(slices.Clone(direct), tempName...) {
		if f, err := os.Open(a.path(name)); err == nil {
			b, _ := io.ReadAll(f)
			require.NoError(a.t, f.Close())
			a.saw(name, b, false)
		}
		if f, err := os.OpenFile(a.path(name), os.O_WRONLY, 0); err == nil {
			a.fresh++
			_, _ = f.WriteAt([]byte(fmt.Sprintf("w%04d", a.fresh)), 0)
			require.NoError(a.t, f.Close())
		}
	}
}

// rename does an operation on names, and notes what is renamed aside.
func (a *attack) rename(op, one, two string) {
	st, was := a.stat(one)
	of := one
	if as := a.aside[one]; as != "" {
		of = as
	}
	a.random(a.t, op, a.path(one), a.path(two), nil)
	now, is := a.stat(two)
	if moved := strings.HasPrefix(op, "rename") || op == "noreplace" || op == "exchange" || op == "link"; !moved || one == two || !was || !is || st.Ino != now.Ino {
		return
	}
	if a.temp(two) && (!slices.Contains(tempName, one) || a.aside[one] != "") {
		a.aside[two] = of
	}
	if op == "link" && a.temp(one) {
		a.aside[one] = two
	}
}

func (a *attack) closeAll() {
	for _, f := range a.open {
		require.NoError(a.t, f.Close())
	}
	a.open = nil
}

// In whatever order an agent uses names, links and open files: it never reads what the rules forbid, and never changes a
// file of which another agent has the lease.
func TestNoOrderOfOperationsGetsPastRulesAndLeases(t *testing.T) {
	v := newTempView(t, oneFile)
	v.unmount()
	lock := &taking{taken: map[string]bool{}, times: map[string]int{}}
	v.locker = lock
	v.mount()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each has a directory of its own
		a := &attack{tempView: v, t: rt, top: fmt.Sprintf("a%d/", n), lock: lock, token: map[uint64]string{}, names: map[uint64][]string{}, aside: map[string]string{}}
		defer a.closeAll()
		require.NoError(rt, os.MkdirAll(filepath.Join(v.back, a.top+"src"), 0o755))
		for _, name := range direct {
			token := fmt.Sprintf("<%s the owner's %s>", a.top, name)
			require.NoError(rt, os.WriteFile(filepath.Join(v.back, a.top+"src", name), []byte("12345678"+token), 0o644))
			st, _ := a.stat(name)
			a.token[st.Ino], a.names[st.Ino] = token, []string{name}
		}
		v.swap(policy.Rules{Read: []string{a.top + "src/*"}, Write: []string{a.top + "src/f", a.top + "src/g"}})
		for range rapid.IntRange(10, 60).Draw(rt, "steps") {
			before := a.held()
			a.step()
			a.learn()
			a.probe()
			for name, was := range a.held() {
				if b, ok := before[name]; ok && was != b {
					rt.Fatalf("%s has changed without its lease: %s, was %s", name, was, b)
				}
			}
		}
	})
}
