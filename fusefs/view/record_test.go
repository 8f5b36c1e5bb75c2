package view

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/fusefs/changed"
	"polis/fusefs/policy"
)

// TestEveryChangeIsRecorded: each program of an agent changes something else.
func TestEveryChangeIsRecorded(t *testing.T) {
	needRoot(t)
	set := changed.New()
	a := mountedWith(t, &book{held: map[string]string{}}, "a", policy.Rules{Deny: []string{"closed"}}, map[string]string{"f": "x", "g": "x", "d/in": "x", "e/in": "x", "h": "x"}, func(c *Config) { c.Changes = set })
	since := set.Take("").ID
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"read", "cat f d/in; ls -l d", nil},
		{"write", "echo 1 >f", []string{"f"}},
		{"append", "echo 1 >>d/in", []string{"d/in"}},
		{"create", "echo 1 >new", []string{"new"}},
		{"chmod", "chmod 600 f", []string{"f"}},
		{"touch", "touch -d 2001-01-01 f", []string{"f"}},
		{"truncate", "truncate -s 0 f", []string{"f"}},
		{"link", "ln g l", []string{"g", "l"}},
		{"symlink", "ln -s g s", []string{"s"}},
		{"pipe", "mkfifo p", []string{"p"}},
		{"mkdir", "mkdir -p n/m && echo 1 >n/m/x", []string{"n/"}},
		{"rename", "mv f f2", []string{"f", "f2"}},
		{"rename a directory", "mv e e2", []string{"e/", "e2/"}},
		{"remove", "rm l s p", []string{"l", "p", "s"}},
		{"remove a directory", "rm -r n", []string{"n", "n/m", "n/m/x"}},
		{"refused", "echo 1 >closed", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _ = a.sh(c.script)
			cut := set.Take(since)
			require.Empty(t, cut.Whole)
			since = cut.ID
			var got []string
			for _, p := range cut.Paths {
				if p.Tree {
					p.Name += "/"
				}
				got = append(got, p.Name)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestAChangeThatACutInterrupts: it was allowed before the cut, and is made after it.
func TestAChangeThatACutInterrupts(t *testing.T) {
	needRoot(t)
	set := changed.New()
	a := mountedWith(t, &book{held: map[string]string{}}, "a", policy.Rules{Deny: []string{"closed"}}, map[string]string{"f": "x"}, func(c *Config) { c.Changes = set })
	since := set.Take("").ID
	a.view.Suspend()
	done := make(chan error, 1)
	go func() { _, err := a.sh("echo 1 >f"); done <- err }()
	time.Sleep(200 * time.Millisecond)
	cut := set.Take(since)
	a.view.Resume()
	require.NoError(t, <-done)
	cut = set.Take(cut.ID)
	require.Equal(t, []changed.Path{{Name: "f"}}, cut.Paths)
	b, err := os.ReadFile(filepath.Join(a.mnt, "f"))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(b))
}
