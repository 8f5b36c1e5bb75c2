package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Feature: multi-agent-workspaces, Property 20: Initialization Idempotence
// Feature: multi-agent-workspaces, Property 21: Persistence Round-Trip
// Feature: multi-agent-workspaces, Property 22: Corrupted Worktree Handling
func TestAStartRestoresAllButWhatIsCorrupt(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	polis := func(elem ...string) string { return d.path(append([]string{"ws", ".polis"}, elem...)...) }
	d.add("alice", "--memory", "200", "--branch", "topic/x", "--port", "3000", "--", "sleep", "1000")
	for _, name := range []string{"nogit", "elsewhere", "gone", "whole"} {
		d.add(name)
		d.sh(name, "echo precious > new.txt")
		d.must("agents", "stop", name)
	}
	before, _ := d.agent("alice")
	d.stop()
	require.NoError(t, os.RemoveAll(polis("bare-repo.git", "worktrees", "nogit")))
	require.NoError(t, os.WriteFile(polis("worktrees", "elsewhere", ".git"), []byte("gitdir: /etc\n"), 0o644))
	require.NoError(t, os.RemoveAll(polis("worktrees", "gone")))
	d.start()
	for range 3 {
		d.must("up", "--repo", project, d.path("ws"))
		after, there := d.agent("alice")
		require.True(t, there)
		require.Equal(t, before.CreatedAt, after.CreatedAt)
		require.Equal(t, []any{200, "topic/x", "custom", before.PortMappings[0].Internal}, []any{after.MemoryLimitMB, after.Branch, after.BaseType, after.PortMappings[0].Internal})
		rep := d.report()
		require.Len(t, rep.Restored, 1)
		require.Len(t, rep.Skipped, 2, fmt.Sprint(rep))
		require.Len(t, rep.Dropped, 1)
		require.Contains(t, rep.Dropped[0], string(api.CodeWorktreeMissing))
		_, there = d.agent("gone")
		require.False(t, there)
		for _, name := range []string{"nogit", "elsewhere"} {
			a, _ := d.agent(name)
			require.Equal(t, api.StatusError, a.Status)
			require.Contains(t, a.StatusReason, string(api.CodeWorktreeCorrupt))
			require.Equal(t, "precious\n", readFile(polis("worktrees", name, "new.txt")), "nothing of it is touched")
		}
		d.must("agents", "start", "--program", "whole")
		require.Equal(t, "precious\n", d.sh("whole", "cat new.txt"))
	}
	d.must("agents", "start", "--program", "nogit")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("nogit", "cat main.txt"))
	d.brokenIsReported("nogit")
	d.must("agents", "remove", "elsewhere", "--force")
	for _, name := range []string{"nogit", "elsewhere"} {
		require.Len(t, glob(polis("trash", name+".*", "worktree", "new.txt")), 1, name+" is in the trash as a whole")
	}
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Empty(t, d.report().Errors)
	require.Empty(t, d.report().Skipped)
}

// brokenIsReported: a person sees where the files are that were not committed, and how to bring them back.
func (d *daemon) brokenIsReported(name string) {
	d.t.Helper()
	events := d.eventsOf(api.EventWorktree)
	require.Len(d.t, events, 1)
	e := events[0]
	require.Equal(d.t, []any{name, api.CodeWorktreeCorrupt}, []any{e.Agent, e.Code}, e)
	dir := fmt.Sprint(e.Data["trash"])
	require.Equal(d.t, "precious\n", readFile(filepath.Join(dir, "worktree", "new.txt")))
	require.Contains(d.t, e.Data["reason"], "git directory")
	shown := func() []bool {
		a, _ := d.agent(name)
		return []bool{a.TrashedWorktree == dir, strings.Contains(d.must("agents", "list"), dir), strings.Contains(fmt.Sprint(a.Warnings), dir)}
	}
	require.Equal(d.t, []bool{true, true, true}, shown())
	files, restore, _ := strings.Cut(fmt.Sprint(e.Data["hint"]), " | polisctl ")
	archive := d.shAsOwner("/", strings.ReplaceAll(files, "FILE", "new.txt"))
	require.Zero(d.t, d.ctlInput(archive, strings.Fields(restore)...).code)
	require.Equal(d.t, "precious\n", d.sh(name, "cat new.txt"))
	require.Error(d.t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(d.t, []bool{true, true, true}, shown(), "also after a restart")
	kept := dir + ".kept"
	require.NoError(d.t, os.Rename(dir, kept))
	require.Equal(d.t, []bool{false, false, false}, shown(), "not when it is gone")
	require.NoError(d.t, os.Rename(kept, dir))
}
