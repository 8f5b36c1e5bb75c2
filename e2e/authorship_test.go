package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) blame(args ...string) (b api.Blame) {
	d.t.Helper()
	decode(d.t, d.must(append([]string{"--json", "blame"}, args...)...), &b)
	return b
}

func (d *daemon) who(args ...string) (w api.Who) {
	d.t.Helper()
	decode(d.t, d.must(append([]string{"--json", "who"}, args...)...), &w)
	return w
}

// TestWhoAndBlame: a line of a merged commit, of an agent's own commit and of no commit has its agent
// and task; a process is known of an agent with audit = "full" only, which the answer contains.
func TestWhoAndBlame(t *testing.T) {
	d := startDaemon(t, options{config: auditFull})
	d.up()
	d.add("alice", "--role", "audited", "--", "sh", "-c", "eval \"$0\"")
	d.must("agents", "run", "alice", "printf 'one\\ntwo\\n' > made.txt; cat main.txt; git add -A; git commit -qm made; polisctl done")
	require.Equal(t, api.OutcomeMerged, d.settled("alice").Outcome, "by the queue, as its task has ended well")
	d.add("bob")
	d.sh("bob", "printf 'one\\nbob\\ntwo\\n' > made.txt; git commit -qam 'by bob'; printf 'not yet\\033[2J\\n' >> made.txt; printf x > $(printf 'new\\nname')")

	b := d.blame("made.txt")
	require.Len(t, b.Lines, 2)
	c := b.Commits[b.Lines[0].Commit]
	require.Equal(t, "alice", c.Agent)
	require.Equal(t, []string{"alice.1"}, c.Tasks)
	require.NotEmpty(t, c.Merge)
	main := d.blame("main.txt")
	require.Empty(t, main.Commits[main.Lines[0].Commit].Agent, "a person's")
	b = d.blame("made.txt", "--agent", "bob")
	require.Len(t, b.Lines, 4)
	require.Equal(t, "bob", b.Commits[b.Lines[1].Commit].Agent)
	require.Equal(t, "alice", b.Commits[b.Lines[2].Commit].Agent)
	require.Empty(t, b.Lines[3].Commit)
	require.NotContains(t, d.must("blame", "made.txt", "--agent", "bob"), "\x1b")
	require.Empty(t, d.blame("new\nname", "--agent", "bob").Lines[0].Commit, "no commit has it")

	var w api.Who
	d.eventually("the open is recorded", func() bool {
		w = d.who("wrote", "made.txt")
		return strings.Contains(d.must("who", "wrote", "made.txt"), " (pid ")
	})
	has := func(w api.Who, source, agent, task string) bool {
		for _, u := range w.Uses {
			if u.Source == source && u.Agent == agent && u.Task == task {
				return true
			}
		}
		return false
	}
	w = d.who("wrote", "made.txt")
	require.True(t, has(w, api.UseOpen, "alice", "alice.1"), "%+v", w)
	require.True(t, has(w, api.UseCommit, "alice", "alice.1"), "%+v", w)
	require.True(t, has(w, api.UseCommit, "bob", ""), "%+v", w)
	require.True(t, has(w, api.UseFiles, "bob", ""), "%+v", w)
	require.Contains(t, strings.Join(w.Notes, "\n"), "bob")
	line := d.who("wrote", "made.txt:1")
	require.Equal(t, "one", line.Line.Text)
	require.True(t, has(line, api.UseOpen, "alice", "alice.1"), "%+v", line)
	require.True(t, has(line, api.UseCommit, "alice", "alice.1"), "%+v", line)
	require.False(t, has(line, api.UseCommit, "bob", ""))
	line = d.who("wrote", "made.txt:4", "--agent", "bob")
	require.True(t, has(line, api.UseFiles, "bob", ""), "%+v", line)
	read := d.who("read", "main.txt")
	require.True(t, has(read, api.UseOpen, "alice", "alice.1"), "%+v", read)
	require.Contains(t, strings.Join(read.Notes, "\n"), "reads are recorded")
	require.Empty(t, d.who("wrote", "main.txt", "--agent", "alice").Uses)

	d.refused(api.CodeBadRequest, "who", "wrote", "made.txt:99")
	d.refused(api.CodeNotFound, "blame", "missing.txt")
	d.refused(api.CodeNotFound, "blame", "missing.txt", "--agent", "bob")
}

// TestBlameOfHostileFiles: what an agent puts in the place of a file, and its configuration of git, lead
// nowhere, run nothing and hold up nothing.
func TestBlameOfHostileFiles(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("eve")
	d.sh("eve", `rm main.txt; ln -s /etc/shadow main.txt; mkfifo pipe; truncate -s 100G huge; yes | head -n 60000 > long; mkdir dir; ln -s / out
printf '%s\n' '* filter=x diff=x' '*.md text eol=crlf' > .gitattributes
git config filter.x.clean 'touch /tmp/ran; cat'; git config diff.x.textconv 'touch /tmp/ran; cat'; git config core.fsmonitor 'touch /tmp/ran'; git config blame.ignoreRevsFile /etc/shadow || true
printf 'a\000b\n' >> docs/guide.md`)
	for _, name := range []string{"main.txt", "pipe", "dir", "out/etc/passwd", "docs"} {
		d.refused(api.CodeNotFound, "blame", name, "--agent", "eve")
	}
	for _, name := range []string{"huge", "long"} {
		d.refused(api.CodeTooLarge, "blame", name, "--agent", "eve")
	}
	b := d.blame("docs/guide.md", "--agent", "eve")
	require.Equal(t, "a\x00b", b.Lines[len(b.Lines)-1].Text)
	require.NotEqual(t, 0, d.exec("eve", "test", "-e", "/tmp/ran").code)
	require.NoFileExists(t, "/tmp/ran")
}

// TestWhoFindsWhatOnlyCheckpointsHave: a content that was changed again and never committed has its agent, task and process,
// by the checkpoints around it and the opens between them.
func TestWhoFindsWhatOnlyCheckpointsHave(t *testing.T) {
	d := startDaemon(t, options{config: auditFull})
	d.up()
	d.add("alice", "--role", "audited", "--", "sh", "-c", "eval \"$0\"")
	d.checkpoint("alice")
	d.must("agents", "run", "alice", "printf 'one\\ntwo\\n' > draft.txt; polisctl done")
	d.eventually("the task has ended", func() bool { a, _ := d.agent("alice"); return a.Task != nil && a.Task.State == api.TaskEnded })
	first := d.checkpoint("alice")
	d.sh("alice", "printf 'zero\\none\\nchanged\\n' | tee draft.txt")
	second := d.checkpoint("alice")
	d.sh("alice", "rm draft.txt; echo x > last.txt")
	d.checkpoint("alice")
	d.eventually("the opens are recorded", func() bool { return d.opened("alice", "create", "last.txt") != nil })

	at := func(w api.Who, source string) (out []api.WhoUse) {
		for _, u := range w.Uses {
			if u.Source == source {
				out = append(out, u)
			}
		}
		return out
	}
	all := at(d.who("wrote", "draft.txt"), api.UseCheckpoint)
	require.Len(t, all, 2)
	require.Equal(t, first.ID, all[0].Checkpoint.ID)
	require.Equal(t, "alice.1", all[0].Task)
	require.Equal(t, second.ID, all[1].Checkpoint.ID)
	require.Empty(t, at(d.who("wrote", "main.txt"), api.UseCheckpoint), "the commit has it")

	w := d.who("wrote", "draft.txt:2", "--at", first.ID)
	require.Equal(t, "two", w.Line.Text)
	require.Equal(t, first.ID, at(w, api.UseCheckpoint)[0].Checkpoint.ID)
	for _, u := range at(w, api.UseOpen) {
		require.Equal(t, "alice.1", u.Task)
		require.NotZero(t, u.PID)
	}
	require.NotEmpty(t, at(w, api.UseOpen))
	w = d.who("wrote", "draft.txt:2", "--at", second.ID)
	require.Equal(t, "one", w.Line.Text)
	require.Equal(t, first.ID, at(w, api.UseCheckpoint)[0].Checkpoint.ID, "the line is older than the checkpoint")
	w = d.who("wrote", "draft.txt:3", "--at", second.ID)
	require.Equal(t, second.ID, at(w, api.UseCheckpoint)[0].Checkpoint.ID)
	require.NotEmpty(t, at(w, api.UseOpen))
	for _, u := range at(w, api.UseOpen) {
		require.Equal(t, "tee draft.txt", u.Command)
	}
	require.Contains(t, d.must("who", "wrote", "draft.txt:3", "--at", second.ID), "in checkpoint "+second.ID)
	d.refused(api.CodeBadRequest, "who", "wrote", "draft.txt:9", "--at", second.ID)
	d.refused(api.CodeNotFound, "who", "wrote", "draft.txt:1", "--at", "none")
	d.refused(api.CodeNotFound, "who", "wrote", "missing.txt:1", "--at", second.ID)
	d.must("agents", "remove", "alice", "--force")
	require.Len(t, at(d.who("wrote", "draft.txt"), api.UseCheckpoint), 2, "also when the agent is gone")
}

// TestCommitsOfRemovedAgentsHaveTheirAgent, although they were never merged: another agent began with them.
func TestCommitsOfRemovedAgentsHaveTheirAgent(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.up()
	d.add("bob")
	d.sh("bob", "echo bob > made.txt; git add made.txt; git commit -qm made")
	d.must("agents", "fork", "bob", "carol")
	d.sh("carol", "echo carol >> made.txt; git commit -qam more")
	check := func() {
		t.Helper()
		b := d.blame("made.txt", "--agent", "carol")
		require.Equal(t, "bob", b.Commits[b.Lines[0].Commit].Agent)
		require.Equal(t, "carol", b.Commits[b.Lines[1].Commit].Agent)
		by := map[string]string{}
		for _, u := range d.who("wrote", "made.txt").Uses {
			if u.Commit != nil {
				by[u.Commit.Summary] = u.Agent
			}
		}
		require.Equal(t, map[string]string{"made": "bob", "more": "carol"}, by)
	}
	check()
	d.must("agents", "remove", "bob", "--force")
	check()
	d.stop()
	d.start()
	check()
}
