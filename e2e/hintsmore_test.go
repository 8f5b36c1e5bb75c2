package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Resources that are exhausted, or belong to another agent.
func TestHintsAboutWhatIsTaken(t *testing.T) {
	d := startDaemon(t, options{config: "[limits.total]\nmemory_mb = 1024\n[admission]\novercommit = 1\n[network]\nauto_map = false\n"})
	repo := d.up()
	d.add("alice", "--memory", "500", "--exclusive", "docs/**")
	d.add("bob", "--memory", "400", "--write", "src/**")
	d.trials(t,
		tried{hint: "stop an agent, give it less (polisctl agents set), use --force, or change [admission] in polisd.toml", refused: "agents add carl --base custom --memory 200",
			do: []string{"agents set bob --memory 200"}, then: true},
		tried{hint: "polisctl agents policy %s shows its rules; choose other paths, or take the overlap away with --write '!%s' after the other rules",
			refused: "agents set bob --write **", do: []string{"agents policy alice", "agents set bob --write ** --write !docs/**"}},
	)
	d.must("ports", "add", "bob", "8000")
	d.must("ports", "add", "bob", "8001/udp")
	d.trials(t,
		tried{hint: "polisctl ports remove %s %s", refused: "ports add bob 8000", do: []string{"ports remove bob 8000"}, then: true},
		tried{hint: "polisctl ports remove %s %s: UDP is mapped, TCP is not", refused: "ports remove bob 8001", do: []string{"ports remove bob 8001/udp"}},
	)
	// A file that another holds.
	file := repo + "/src/a.txt"
	d.sh("bob", "polisctl lock src/a.txt")
	d.trials(t, tried{hint: "wait, ask %s, or polisctl locks break %s", refused: "lock " + file, do: []string{"locks break " + file}, then: true})
	d.must("unlock", file)
}

// The sandbox has its own.
func TestHintsInTheSandbox(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--write", "src/**", "--read", "**")
	d.add("bob", "--", "sh", "-c", "{prompt}")
	refused := func(agent, hint string, args ...string) {
		t.Helper()
		r := d.exec(agent, append([]string{"polisctl", "--json"}, args...)...)
		require.NotZero(t, r.code, "%v: %s", args, r)
		var e struct{ Error api.Error }
		decode(t, r.stderr, &e)
		require.Regexp(t, pattern(hint), e.Error.Hint, "%v: %s", args, r)
	}
	d.sh("alice", "polisctl lock src/a.txt")
	refused("bob", "polisctl wait %s waits until it is free", "lock", "src/a.txt")
	waits := make(chan result, 1)
	go func() { waits <- d.exec("bob", "polisctl", "wait", "src/a.txt", "--timeout", "80s") }()
	d.sh("alice", "polisctl unlock src/a.txt")
	require.Zero(t, (<-waits).code, "the wait ends when it is free")
	d.sh("bob", "polisctl unlock src/a.txt; polisctl lock src/a.txt; polisctl unlock src/a.txt")

	refused("alice", "/run/polis/locks lists what is locked", "unlock", "src/b.txt")
	d.sh("alice", "polisctl lock src/b.txt")
	d.eventually("the lock is listed there", func() bool { return strings.Contains(d.sh("alice", "cat /run/polis/locks"), "src/b.txt") })
	refused("alice", "/run/polis/policy has the rules", "lock", "docs/guide.md")
	require.Contains(t, d.sh("alice", "cat /run/polis/policy"), "src/**")
	d.add("carol", "--read", "**", "--write", "src/a.txt")
	refused("carol", "lock the files, or a directory below that is yours as a whole; /run/polis/policy has the rules", "lock", "--tree", "src")
	d.sh("carol", "polisctl lock src/a.txt; polisctl unlock src/a.txt")
	refused("alice", "/run/polis/locks is kept up to date", "locks", "--watch")
	refused("alice", "ask the administrator", "unlock", "src/b.txt", "--break")

	// Work that no task is.
	d.sh("bob", ident+"echo x > new.txt; git add -A; git commit -qm x")
	refused("bob", "a task is what polisctl run gives it; the branch of other work is merged with polisctl merge %s", "done")
	d.must("merge", "bob")
	d.must("run", "--wait", "bob", "polisctl", "done")
}

// Projects and saved work.
func TestHintsAboutRepositories(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	second, empty := d.path("second"), d.path("empty")
	git(t, d.dir, "init", "-q", "-b", "main", empty)
	require.NoError(t, exec.Command("chown", "-R", "0:0", repo).Run()) // git clones its user's repositories only
	git(t, d.dir, "clone", "-q", "--depth", "1", "file://"+repo, d.path("shallow"))
	git(t, d.dir, "clone", "-q", repo, second)
	git(t, d.dir, "clone", "-q", repo, d.path("loose"))
	git(t, d.path("loose"), "checkout", "-q", "--detach")
	for _, dir := range []string{repo, second, empty, d.path("loose"), d.path("shallow")} {
		d.giveAway(dir)
	}
	d.must("up", "--repo", second, d.path("ws2"))
	d.trials(t,
		tried{hint: "--workspace %s", refused: "agents add alice --base custom -- true", do: []string{"agents add alice --workspace ws --base custom -- true"}},
		tried{hint: "check one out, or name it: polisctl up --target BRANCH", refused: "up --repo " + d.path("loose") + " " + d.path("ws3"),
			do: []string{"up --target main --repo " + d.path("loose") + " " + d.path("ws3")}, then: true},
	)
	d.hinted("make a first commit: git -C %s commit --allow-empty -m start", "up", "--repo", empty, d.path("ws5"))
	git(t, empty, "commit", "-q", "--allow-empty", "-m", "start")
	d.giveAway(empty)
	d.must("up", "--repo", empty, d.path("ws5"))
	d.hinted("git -C %s fetch --unshallow makes it complete", "up", "--repo", d.path("shallow"), d.path("ws6"))
	require.NoError(t, exec.Command("chown", "-R", "0:0", repo, d.path("shallow")).Run())
	git(t, d.path("shallow"), "fetch", "-q", "--unshallow")
	d.giveAway(repo)
	d.giveAway(d.path("shallow"))
	d.must("up", "--repo", d.path("shallow"), d.path("ws6"))

	// Saved agents of one name in two workspaces.
	leave := func(ws string) {
		t.Helper()
		d.must("agents", "add", "twice", "--workspace", ws, "--base", "custom")
		d.sh("twice", "echo x > left.txt")
		d.must("agents", "remove", "twice", "--force")
	}
	leave("ws")
	leave("ws2")
	d.trials(t, tried{hint: "--workspace NAME", refused: "restore twice", do: []string{"--workspace ws restore twice"}})
	d.must("agents", "remove", "twice", "--force")
	d.must("agents", "add", "moved", "--workspace", "ws2", "--base", "custom")
	// Git that cannot commit.
	d.sh("moved", "echo x > new.txt; touch $(git rev-parse --git-dir)/index.lock")
	d.trials(t, tried{hint: "polisctl agents exec %s -- git status", refused: "agents commit moved", do: []string{"agents exec moved -- git status"}, shows: "new.txt"})
	// A checkout that has moved.
	require.NoError(t, os.Rename(second, d.path("elsewhere")))
	d.hinted("put the project back; if it was moved or cloned again on purpose: polisctl workspace move %s PATH", "agents", "add", "late", "--workspace", "ws2", "--base", "custom", "--", "true")
	d.must("up", "--repo", d.path("elsewhere"), d.path("ws2")) // nothing is where it was
	d.must("agents", "add", "late", "--workspace", "ws2", "--base", "custom", "--", "true")
}
