package conflictwatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

var (
	alice = Agent{Name: "alice", Branch: "agent/alice"}
	bob   = Agent{Name: "bob", Branch: "agent/bob"}
)

func two(main string) map[string]string {
	return map[string]string{"main.txt": main, "other.txt": "other\n"}
}

func TestACommitThatConflictsIsAnEventAndItsEndToo(t *testing.T) {
	s := newSite(t, two("one\n"))
	s.commit("agent/alice", "main", two("alice\n"))
	s.commit("agent/bob", "main", two("one\n"))
	s.open(alice, bob)
	require.Empty(t, s.report().Merges)
	require.Zero(t, s.watcher.Count())

	s.commit("agent/bob", "agent/bob", two("bob\n"))
	e := s.await(api.EventConflictFound)
	require.Equal(t, "alice", e.Agent)
	require.Equal(t, []string{"alice", "bob"}, e.Data["agents"])
	require.Equal(t, []string{"main.txt"}, e.Data["paths"])
	require.Contains(t, e.Message, `agent/alice and agent/bob conflict in 1 file: "main.txt"`)
	c := s.report()
	require.Len(t, c.Merges, 1)
	require.Equal(t, []string{"agent/alice", "agent/bob"}, c.Merges[0].Branches)
	require.Equal(t, []api.ConflictPath{{Path: "main.txt", LeasedBy: []string{}, AwaitedBy: []string{},
		ChangedBy: []api.ConflictChange{{Agent: "alice", Committed: true}, {Agent: "bob", Committed: true}}}}, c.Paths)
	require.Equal(t, api.ConflictCount{Merges: 1, Paths: 1}, s.watcher.Count())

	// A known conflict is not published again; a new path of it is.
	since := c.Merges[0].Since
	more := two("bob again\n")
	s.commit("agent/bob", "agent/bob", more)
	require.Equal(t, since, s.report().Merges[0].Since)
	more["other.txt"] = "bob\n"
	s.commit("agent/bob", "agent/bob", more)
	s.report()
	both := two("alice\n")
	both["other.txt"] = "alice\n"
	s.commit("agent/alice", "agent/alice", both)
	require.Equal(t, []string{"main.txt", "other.txt"}, s.await(api.EventConflictFound).Data["paths"])

	// Alice is merged: bob now conflicts with the target, and alice has no conflict.
	s.git(nobody, s.bare, nil, "update-ref", "refs/heads/main", "refs/heads/agent/alice")
	e = s.await(api.EventConflictFound)
	require.Equal(t, []string{"agent/bob", "main"}, e.Data["branches"])
	require.Equal(t, []string{"alice", "bob"}, s.await(api.EventConflictGone).Data["agents"])
	// A removed agent has no conflicts.
	s.watcher.Branches.SetAgents([]Agent{alice})
	require.Equal(t, []string{"bob"}, s.await(api.EventConflictGone).Data["agents"])
	require.Empty(t, s.report().Paths)
	require.Empty(t, s.events)
}

func TestACommitCostsOneBranchsMergesAndQuietNothing(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("dir%d/file%d", i%20, i)] = "text\n"
	}
	s := newSite(t, files)
	var agents []Agent
	for i := range 10 {
		name := fmt.Sprintf("agent%d", i)
		agents = append(agents, Agent{Name: name, Branch: "agent/" + name})
		files[fmt.Sprintf("dir%d/file%d", i, i)] = "changed\n"
		s.commit("agent/"+name, "main", files)
		files[fmt.Sprintf("dir%d/file%d", i, i)] = "text\n"
	}
	s.open(agents...)
	require.Equal(t, 55, s.report().Tried)
	objects := s.objects()
	s.commands()

	before := len(s.watcher.tried)
	s.commit("agent/agent3", "agent/agent3", files)
	objects = s.objects() - objects
	require.LessOrEqual(t, objects, 22, "the commit's own trees")
	objects = s.objects()
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(s.peek(), "\n"), "merge-tree") }, soon, 10*time.Millisecond)
	c := s.report()
	require.Equal(t, 55, c.Tried)
	require.Equal(t, before, len(s.watcher.tried), "what is no longer a tip's is forgotten")
	var verbs []string
	for _, line := range s.commands() {
		verbs = append(verbs, strings.Fields(line)[0])
	}
	count := func(verb string) (n int) {
		for _, v := range verbs {
			if v == verb {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, count("merge-tree"), verbs)
	require.Equal(t, 1, count("merge-base"), verbs)
	require.Equal(t, 1, count("diff-tree"), verbs)
	require.Equal(t, objects, s.objects(), "tried merges leave nothing behind")
	left, err := os.ReadDir(s.watcher.Scratch)
	require.NoError(t, err)
	require.Empty(t, left)

	// With no commit and no question there is no git at all.
	require.Eventually(t, func() bool { // a scan may be under way
		s.commands()
		time.Sleep(time.Second)
		return len(s.peek()) == 0
	}, soon, time.Millisecond)
	s.git(nobody, s.bare, nil, "tag", "v1", "main")
	time.Sleep(time.Second)
	require.Empty(t, s.commands())
}

func (s *site) peek() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.ran...)
}

func (s *site) objects() (n int) {
	require.NoError(s.t, filepath.WalkDir(filepath.Join(s.bare, "objects"), func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	}))
	return n
}

func TestUncommittedChangesAreSeenWhenAsked(t *testing.T) {
	s := newSite(t, two("one\n"))
	tree, err := s.watcher.Git.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	s.commit("agent/bob", "main", two("bob\n"))
	s.open(alice, bob)
	require.Empty(t, s.report().Paths)
	require.NoError(t, os.WriteFile(filepath.Join(tree.Path, "main.txt"), []byte("alice\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(tree.Path, "new.txt"), []byte("alice\n"), 0o644))
	var c api.Conflicts
	require.Eventually(t, func() bool { c = s.report(); return len(c.Paths) > 0 }, soon, 100*time.Millisecond)
	require.Equal(t, "main.txt", c.Paths[0].Path)
	require.Equal(t, []api.ConflictChange{{Agent: "alice", Uncommitted: true}, {Agent: "bob", Committed: true}}, c.Paths[0].ChangedBy)
	require.Equal(t, 2, c.Branches[0].Uncommitted)
	require.Empty(t, c.Merges, "only commits are merged")
}

func TestAFailedTrialIsReportedAndDoesNotStopTheRest(t *testing.T) {
	s := newSite(t, two("one\n"))
	s.write(nobody, s.bare, "agent/stranger", "", two("a root of its own\n"))
	s.commit("agent/alice", "main", two("alice\n"))
	s.commit("agent/bob", "main", two("bob\n"))
	s.open(alice, bob, Agent{Name: "stranger", Branch: "agent/stranger"}, Agent{Name: "unborn", Branch: "agent/unborn"})
	c := s.report()
	require.Len(t, c.Branches, 3)
	require.Len(t, c.Merges, 2)
	require.Contains(t, c.Merges[0].Error, "unrelated histories")
	require.Equal(t, []string{"alice", "bob"}, c.Merges[1].Agents)
	require.Equal(t, api.ConflictCount{Merges: 1, Paths: 1}, s.watcher.Count())

	// A repository that another user could configure is not touched.
	require.NoError(t, os.Chmod(filepath.Join(s.bare, "config"), 0o666))
	require.Eventually(t, func() bool {
		c = s.watcher.Report(t.Context())
		return len(c.Errors) > 0
	}, soon, 10*time.Millisecond)
	require.Contains(t, c.Errors[0], "not the daemon's own any more")
	require.Len(t, c.Merges, 2, "the last result is still reported")
	s.commands()  // of a scan that had begun before
	for range 3 { // each waits for a scan
		require.NotEmpty(t, s.watcher.Report(t.Context()).Errors)
	}
	require.Empty(t, s.commands())
}

func TestAConflictEndsOnlyAfterACompleteScan(t *testing.T) {
	var published []string
	m := api.ConflictMerge{Agents: []string{"alice", "bob"}, Branches: []string{"a", "b"}, Paths: []string{"f"}, Total: 1}
	key := attempt{agents: m.Agents}.key()
	r := &Watcher{before: map[string]api.ConflictMerge{key: m}, Publish: func(e api.Event) { published = append(published, e.Type) }}
	for _, all := range [][]attempt{nil, {{agents: m.Agents}}} {
		p := &snapshot{partial: true}
		r.record(p, all)
		require.Empty(t, published)
		require.Equal(t, []api.ConflictMerge{m}, p.merges)
	}
	r.record(&snapshot{}, nil)
	require.Equal(t, []string{api.EventConflictGone}, published)
	require.Empty(t, r.before)
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	s := newSite(t, two("one\n"))
	require.NoError(t, os.MkdirAll(filepath.Join(s.watcher.Scratch, "objects-1", "aa"), 0o755))
	s.open(alice)
	require.NoDirExists(t, filepath.Join(s.watcher.Scratch, "objects-1"))
	s.report()
}

func TestLeasesJoinTheChanges(t *testing.T) {
	p := &snapshot{target: "main", branches: []branch{
		{Agent: alice, span: span{changed: []string{"both", "dir/a", "hers"}}},
		{Agent: bob, span: span{changed: []string{"both"}}, uncommitted: []string{"dir/b"}},
	}}
	lease := func(path, holder string, tree bool, waiters ...string) api.Lock {
		return api.Lock{Path: path, Holder: holder, Tree: tree, Waiters: waiters}
	}
	for name, c := range map[string]struct {
		leases []api.Lock
		want   []string // path, changed by / leased by / awaited by
	}{
		"nothing leased":                     {nil, []string{"both alice,bob / / "}},
		"a lease of what two changed":        {[]api.Lock{lease("both", "bob", false)}, []string{"both alice,bob /bob/ "}},
		"one's own lease":                    {[]api.Lock{lease("hers", "alice", false)}, []string{"both alice,bob / / "}},
		"a lease of what another changed":    {[]api.Lock{lease("hers", "bob", false)}, []string{"both alice,bob / / ", "hers alice /bob/ "}},
		"a lease with waiters":               {[]api.Lock{lease("new", "alice", false, "bob", "carol")}, []string{"both alice,bob / / ", "new  /alice/bob,carol"}},
		"a directory with others' work":      {[]api.Lock{lease("dir", "bob", true)}, []string{"both alice,bob / / ", "dir/a alice /bob/ "}},
		"two readers":                        {[]api.Lock{lease("both", "alice", false), lease("both", "bob", false)}, []string{"both alice,bob /alice,bob/ "}},
		"a lease of something quite unknown": {[]api.Lock{lease("x", "alice", false)}, []string{"both alice,bob / / "}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r := p.report(c.leases)
			for _, x := range r.Paths {
				var who []string
				for _, ch := range x.ChangedBy {
					who = append(who, ch.Agent)
				}
				or := func(names []string) string {
					if len(names) == 0 {
						return " "
					}
					return strings.Join(names, ",")
				}
				got = append(got, x.Path+" "+strings.Join(who, ",")+" /"+or(x.LeasedBy)+"/"+or(x.AwaitedBy))
			}
			require.Equal(t, c.want, got)
			require.Equal(t, len(got), r.PathsTotal)
		})
	}
}

func TestListsAreBounded(t *testing.T) {
	var many []string
	for i := range 2*maxCompared + 1 {
		many = append(many, fmt.Sprint(i))
	}
	kept, more := bound(many)
	require.Len(t, kept, maxCompared)
	require.True(t, more)
	p := &snapshot{branches: []branch{{Agent: alice, span: span{changed: kept}}, {Agent: bob, span: span{changed: kept}}}}
	c := p.report(nil)
	require.Len(t, c.Paths, maxListed)
	require.Equal(t, maxCompared, c.PathsTotal)

	p = &snapshot{}
	for i := range 120 {
		p.branches = append(p.branches, branch{Agent: Agent{Name: fmt.Sprint(i), Branch: fmt.Sprint(i)}, span: span{tip: fmt.Sprint(i), base: "base"}})
	}
	require.Len(t, p.attempts(), maxTries)
	require.Equal(t, 120*121/2-maxTries, p.skipped)
}
