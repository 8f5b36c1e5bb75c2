package view

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/tempfile"
)

var tempRules = policy.Rules{
	Read: []string{"src/*"}, Write: []string{"src/f", "src/g", "src/w"}, Ask: []string{"src/k"}, Deny: []string{"src/d*"}, Hide: []string{"src/h*"},
}

// tempGuard is a guard of a directory with src/f, src/g, src/k, another file src/x, the temporary file src/t and src/o,
// which was src/f.
func tempGuard(t *testing.T, rules policy.Rules, change ...func(*Config)) (*setup, string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "src"), 0o755))
	for name, of := range map[string]string{"f": "-", "g": "-", "k": "-", "x": "-", "t": "", "o": "f"} {
		path := filepath.Join(dir, "src", name)
		require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
		if of == "-" {
			continue
		}
		fd, err := unix.Open(path, unix.O_PATH, 0)
		require.NoError(t, err)
		require.NoError(t, tempfile.Set(fd, "src/"+name, of))
		require.NoError(t, unix.Close(fd))
	}
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	table, err := tempfile.Open(int(root.Fd()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	g := newGuard(t, rules, append([]func(*Config){func(c *Config) { c.RootFD, c.Temps = int(root.Fd()), table }}, change...)...)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g, dir
}

// Every operation against the names of temporary files, of files that can be saved by them, and of others.
func TestEveryOperationAgainstTemporaryFiles(t *testing.T) {
	changes := []fusefs.Op{fusefs.OpOpenWrite, fusefs.OpUnlink, fusefs.OpSetattr, fusefs.OpFallocate, fusefs.OpCopyRange, fusefs.OpSetxattr, fusefs.OpRemovexattr, fusefs.OpIoctl}
	allowed := map[string][]fusefs.Op{
		"src/t": changes, "src/o": changes,
		"src/n": {fusefs.OpCreate, fusefs.OpMknod},
		"src/x": nil, "n": nil, "src/sub/n": nil, "src/dn": nil, "src/t/n": {},
	}
	for path, ops := range allowed {
		for _, op := range writeOps {
			g, _ := tempGuard(t, tempRules)
			tk, errno := g.Write(t.Context(), caller, op, file(path))
			require.Equal(t, slices.Contains(ops, op), errno == 0, "%s of %s: %v", op, path, errno)
			require.Empty(t, g.book.reqs, "a temporary file takes no lease")
			if tk != nil {
				tk.Done()
			}
		}
	}
	g, _ := tempGuard(t, tempRules)
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("src/hn"))
	require.Equal(t, syscall.ENOENT, errno)
}

func TestRenamesAndLinksOfTemporaryFiles(t *testing.T) {
	source := func(p string) fusefs.Target { return fusefs.Target{Path: p, Source: true} }
	for _, tc := range []struct {
		op       fusefs.Op
		from, to fusefs.Target
		leases   []string // nil: refused
	}{
		{fusefs.OpRename, file("src/t"), file("src/f"), []string{"src/f"}},
		{fusefs.OpRename, file("src/t"), file("src/w"), []string{"src/w"}},
		{fusefs.OpRename, file("src/o"), file("src/f"), []string{"src/f"}},
		{fusefs.OpRename, file("src/o"), file("src/g"), []string{"src/g"}},
		{fusefs.OpRename, file("src/f"), file("src/n"), []string{"src/f"}},
		{fusefs.OpRename, file("src/f"), file("src/t"), []string{"src/f"}},
		{fusefs.OpRename, file("src/t"), file("src/n"), nil},
		{fusefs.OpRename, file("src/t"), file("src/x"), nil},
		{fusefs.OpRename, file("src/t"), file("src/o"), nil},
		{fusefs.OpRename, file("src/t"), file("src/d1"), nil},
		{fusefs.OpRename, file("src/t"), file("n"), nil},
		{fusefs.OpRename, file("src/f"), file("src/x"), nil},
		{fusefs.OpRename, file("src/f"), file("src/d1"), nil},
		{fusefs.OpRename, file("src/f"), file("n"), nil},
		{fusefs.OpRename, file("src/x"), file("src/f"), nil},
		{fusefs.OpRename, file("src/x"), file("src/n"), nil},
		{fusefs.OpRename, file("src/x"), file("src/t"), nil},
		{fusefs.OpRename, file("src/k"), file("src/n"), nil},
		{fusefs.OpRename, dir("src"), dir("n"), nil},
		{fusefs.OpExchange, file("src/t"), file("src/f"), nil},
		{fusefs.OpExchange, file("src/f"), file("src/t"), nil},
		{fusefs.OpExchange, file("src/t"), file("src/o"), nil},
		{fusefs.OpLink, file("src/w"), source("src/t"), []string{"src/w"}},
		{fusefs.OpLink, file("src/w"), source("src/o"), nil}, // it would be read by the rules of another name
		{fusefs.OpLink, file("src/n"), source("src/t"), nil},
		{fusefs.OpLink, file("src/n"), source("src/f"), nil},
		{fusefs.OpLink, file("src/w"), source("src/x"), nil},
		{fusefs.OpLink, source("src/t"), source("src/f"), nil},
	} {
		asked := 0
		g, _ := tempGuard(t, tempRules, func(c *Config) {
			c.Asker = askerFunc(func(context.Context, Request) (Verdict, error) { asked++; return Verdict{Allow: true}, nil })
		})
		tk, errno := g.Write(t.Context(), caller, tc.op, tc.from, tc.to)
		require.Equal(t, tc.leases != nil, errno == 0, "%s %s %s", tc.op, tc.from.Path, tc.to.Path)
		require.Zero(t, asked)
		if tc.leases == nil {
			require.Empty(t, g.book.reqs)
			require.Len(t, g.denials, 1)
			continue
		}
		require.Len(t, g.book.reqs, 1)
		require.Equal(t, tc.leases, g.book.reqs[0].Paths, "%s %s %s", tc.op, tc.from.Path, tc.to.Path)
		require.True(t, tk.(fusefs.Temporary).Still())
		tk.Done()
	}
}

func TestARefusalOfATemporaryFileNamesTheKey(t *testing.T) {
	for _, targets := range [][]fusefs.Target{{file("src/t"), file("src/n")}, {file("src/k"), file("src/n")}} {
		g, _ := tempGuard(t, tempRules, func(c *Config) {
			c.Asker = askerFunc(func(context.Context, Request) (Verdict, error) { return Verdict{Allow: true}, nil })
		})
		_, errno := g.Write(t.Context(), caller, fusefs.OpRename, targets...)
		require.Equal(t, syscall.EACCES, errno)
		require.Contains(t, g.denials[0].Rule, tempKey)
		require.Contains(t, g.denials[0].Hint, tempKey)
	}
	off := newGuard(t, tempRules)
	_, errno := off.Write(t.Context(), caller, fusefs.OpCreate, file("src/n"))
	require.Equal(t, syscall.EACCES, errno)
	require.Contains(t, off.denials[0].Hint, tempKey+" is off")
	_, errno = off.Write(t.Context(), caller, fusefs.OpCreate, file("n"))
	require.Equal(t, syscall.EACCES, errno)
	require.NotContains(t, off.denials[1].Hint, tempKey, "no key makes that possible")
}

func TestTheRulesOfItsFormerNameApplyToARenamedFile(t *testing.T) {
	asked := []string{}
	rules := policy.Rules{Write: []string{"src/f", "src/g"}}
	g, _ := tempGuard(t, rules, func(c *Config) {
		c.Asker = askerFunc(func(_ context.Context, r Request) (Verdict, error) {
			asked = append(asked, r.Op)
			return Verdict{}, nil
		})
	})
	require.Zero(t, g.CachedVerdict("src/x", false)&fusefs.Readable, "it can have a mark that the table does not have")
	require.NotZero(t, g.CachedVerdict("other/x", false)&fusefs.Readable)
	tk, errno := g.Write(t.Context(), caller, fusefs.OpSetattr, file("src/o"))
	require.Zero(t, errno)
	tk.Done()
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpOpenRead, "src/o"))
	require.Zero(t, g.CachedVerdict("src/o", false)&(fusefs.Readable|fusefs.Unreadable|fusefs.Unwritable))
	swap := func(r policy.Rules) {
		set, err := policy.Compile(r)
		require.NoError(t, err)
		g.SetPolicy(set)
	}
	rules.Ask = []string{"src/f"}
	swap(rules)
	require.Equal(t, syscall.EACCES, g.Read(t.Context(), caller, fusefs.OpOpenRead, "src/o"))
	_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file("src/o"))
	require.Equal(t, syscall.EACCES, errno)
	_, errno = g.Write(t.Context(), caller, fusefs.OpRename, file("src/o"), file("src/g"))
	require.Equal(t, syscall.EACCES, errno)
	require.Equal(t, []string{"open", "unlink", "rename"}, asked)
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpOpenRead, "src/t"), "what the agent made is its own")
	rules.Ask, rules.Deny = nil, []string{"src/f"}
	swap(rules)
	require.Equal(t, syscall.EACCES, g.Read(t.Context(), caller, fusefs.OpOpenRead, "src/o"))
	_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file("src/o"))
	require.Equal(t, syscall.EACCES, errno)
	require.NotZero(t, g.CachedVerdict("src/o", false)&fusefs.Unwritable)
	// Without a file that can be saved, there are no temporary files.
	swap(policy.Rules{Write: []string{"/other"}})
	for _, name := range []string{"src/t", "src/o"} {
		_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file(name))
		require.Equal(t, syscall.EACCES, errno)
	}
}

// A path that rules let the agent write once is that of an ordinary file, also when they do so no more.
func TestFilesThatTheRulesPermittedAreNoTemporaryFiles(t *testing.T) {
	g, _ := tempGuard(t, tempRules)
	tk, errno := g.Write(t.Context(), caller, fusefs.OpOpenWrite, file("src/t"))
	require.Zero(t, errno)
	tk.Done()
	for _, r := range []policy.Rules{{Write: []string{"src/f", "src/t"}}, {Write: []string{"src/f"}}} {
		set, err := policy.Compile(r)
		require.NoError(t, err)
		g.SetPolicy(set)
	}
	_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file("src/t"))
	require.Equal(t, syscall.EACCES, errno)
}

// What a branch has is no temporary file: git makes it when it checks the branch out.
func TestFilesOfBranchesAreNoTemporaryFiles(t *testing.T) {
	g, _ := tempGuard(t, tempRules, func(c *Config) { c.Tracked = func(p string) bool { return p == "src/n" || p == "src/t" } })
	for op, name := range map[fusefs.Op]string{fusefs.OpCreate: "src/n", fusefs.OpUnlink: "src/t"} {
		_, errno := g.Write(t.Context(), caller, op, file(name))
		require.Equal(t, syscall.EACCES, errno)
	}
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("src/n2"))
	require.Zero(t, errno)
}

func TestADecisionAboutATemporaryFileDoesNotHoldForAnother(t *testing.T) {
	g, dir := tempGuard(t, tempRules)
	unlink, errno := g.Write(t.Context(), caller, fusefs.OpUnlink, file("src/t"))
	require.Zero(t, errno)
	create, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("src/n"))
	require.Zero(t, errno)
	require.NoError(t, os.Remove(filepath.Join(dir, "src/t")))
	for _, name := range []string{"src/t", "src/n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.False(t, unlink.(fusefs.Temporary).Still())
	require.False(t, create.(fusefs.Temporary).Still())
	unlink.Done()
	create.Done()
	_, errno = g.Write(t.Context(), caller, fusefs.OpUnlink, file("src/t"))
	require.Equal(t, syscall.EACCES, errno, "a restore has put another file there")
}

func TestMoreTemporaryFilesThanTheLimitAreRefused(t *testing.T) {
	g, dir := tempGuard(t, tempRules)
	for i := range tempfile.Max {
		name := "src/" + strings.Repeat("n", 1+i%50) + string(rune('0'+i/50))
		tk, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file(name))
		require.Zero(t, errno)
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_CREAT|unix.O_RDWR, 0o644)
		require.NoError(t, err)
		require.Zero(t, tk.(fusefs.Temporary).Mark(fd))
		require.NoError(t, unix.Close(fd))
		tk.Done()
	}
	_, errno := g.Write(t.Context(), caller, fusefs.OpCreate, file("src/one-more"))
	require.Equal(t, syscall.EDQUOT, errno)
	require.Contains(t, g.denials[0].Rule, tempKey)
	removed := "src/" + strings.Repeat("n", 7) + "3"
	tk, errno := g.Write(t.Context(), caller, fusefs.OpUnlink, file(removed))
	require.Zero(t, errno)
	require.NoError(t, os.Remove(filepath.Join(dir, removed)))
	tk.(fusefs.Temporary).Settled()
	tk.Done()
	_, errno = g.Write(t.Context(), caller, fusefs.OpCreate, file("src/one-more"))
	require.Zero(t, errno, g.denials[0].Hint)
}
