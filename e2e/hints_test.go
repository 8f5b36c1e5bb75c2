package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A tried hint: a command is refused with it, and the test does what it says. e2e/arch requires
// that every hint in the source that names a command is tried here or by another test.
type tried struct {
	hint    string   // as the source has it; a verb of its format matches any text
	refused string   // the command of polisctl that is refused
	do      []string // commands of polisctl that the hint names, in order
	shows   string   // what the last of them prints, if that is the help
	then    bool     // refused succeeds after them
}

// try tries one hint. Commands are split at spaces; '_' stands for a space in a word.
func (d *daemon) try(c tried) {
	d.t.Helper()
	given := d.hinted(c.hint, words(c.refused)...)
	last := ""
	for _, command := range c.do {
		args := words(command)
		require.Contains(d.t, given, firstWords(args, given), "the hint names what is done")
		last = d.must(args...)
	}
	require.Contains(d.t, last, c.shows)
	if c.then {
		d.must(words(c.refused)...)
	}
}

// hinted runs a command that is refused with a hint, and returns the hint.
func (d *daemon) hinted(hint string, args ...string) string {
	d.t.Helper()
	r := d.ctl(append([]string{"--json"}, args...)...)
	require.NotZero(d.t, r.code, "polisctl %v should have failed: %s", args, r)
	text := r.stderr[strings.LastIndex(strings.TrimSpace(r.stderr), "\n")+1:] // progress may come before
	var e struct{ Error api.Error }
	require.NoError(d.t, json.Unmarshal([]byte(text), &e), "polisctl %v: %s", args, r)
	require.Regexp(d.t, pattern(hint), e.Error.Hint, "polisctl %v: %s", args, r)
	return e.Error.Hint
}

// pattern returns a regular expression for the hint of the source with any values.
func pattern(hint string) string {
	if strings.HasPrefix(hint, ";") {
		hint = "%s" + hint // it is added to another
	}
	return "^" + regexp.MustCompile(`%(\\\[\d\\\])?[sdvq]`).ReplaceAllString(regexp.QuoteMeta(hint), `(?s:.*)`) + "$"
}

func words(command string) []string {
	args := strings.Fields(command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "_", " ")
	}
	return args
}

// firstWords returns the part of a command that a hint must contain: an option that it names, or
// else the command without its arguments.
func firstWords(args []string, hint string) string {
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "--") && len(name) > 2 && strings.Contains(hint, name) {
			return name
		}
	}
	n := 1
	for n < len(args) && n < 3 && regexp.MustCompile(`^[a-z]+$`).MatchString(args[n]) && strings.Contains(hint, "polisctl "+strings.Join(args[:n+1], " ")) {
		n++
	}
	return "polisctl " + strings.Join(args[:n], " ")
}

// trials tries hints, each in a test of its own.
func (d *daemon) trials(t *testing.T, cases ...tried) {
	t.Helper()
	of := d.t
	defer func() { d.t = of }()
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.refused, "/", "|"), func(t *testing.T) {
			d.t = t
			d.try(c)
		})
	}
}

func TestHintsOfAnEmptyMachine(t *testing.T) {
	d := startDaemon(t, options{config: "max_agents = 1\n"})
	repo := d.smallRepo()
	d.trials(t, tried{hint: "polisctl up --repo PATH", refused: "agents add alice --base custom -- true", do: []string{"up --repo " + repo + " " + d.path("ws")}, then: true})

	// The number of agents, both ways that the hint names.
	const full = "remove an agent, or raise max_agents in polisd.toml and run systemctl reload polisd"
	d.hinted(full, "agents", "add", "bob", "--base", "custom", "--", "true")
	d.must("agents", "remove", "alice")
	d.must("agents", "add", "bob", "--base", "custom", "--", "true")
	d.hinted(full, "agents", "add", "carl", "--base", "custom", "--", "true")
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), "max_agents = 1", "max_agents = 2", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP)) // what systemctl reload sends
	d.eventually("the new limit", func() bool { return d.ctl("agents", "add", "carl", "--base", "custom", "--", "true").code == 0 })
}

// Names that are wrong, missing or taken.
func TestHintsAboutNames(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	d.add("alice", "--branch", "work", "--", "sh", "-c", "{prompt}")
	d.sh("alice", "git branch alices") // its own, as it made it
	d.trials(t,
		tried{hint: "polisctl agents list shows them, polisctl agents add makes one", refused: "agents start bob",
			do: []string{"agents list", "agents add bob --base custom"}, then: true},
		tried{hint: "polisctl status lists them; polisctl up makes one", refused: "agents add carl -w elsewhere --base custom", do: []string{"status"}, shows: "\nws "},
		tried{hint: "polisctl status lists them", refused: "down elsewhere", do: []string{"status"}, shows: "\nws "},
		tried{hint: "choose another name, or polisctl agents remove %s", refused: "agents add bob --base custom -- true", do: []string{"agents remove bob"}, then: true},
		tried{hint: "two agents cannot work on one branch: name another one", refused: "agents add carl --branch work --base custom -- true"},
		tried{hint: "name another branch", refused: "agents add carla --branch main --base custom -- true"},
		tried{hint: "a branch named like a folder of it exists (git cannot have both a and a/b): name another branch", refused: "agents add folder --branch work/b --base custom -- true"},
		tried{hint: "name another branch, or polisctl agents remove %s first", refused: "agents add other --branch alices --base custom -- true",
			do: []string{"agents remove alice --force"}, then: true},
		tried{hint: "give one with --base (polisctl agents types lists them), or a command after --", refused: "agents add dora", do: []string{"agents types"}, shows: "claude"},
		tried{hint: "polisctl agents types lists them", refused: "agents types nothing", do: []string{"agents types"}, shows: "codex"},
		tried{hint: "write the agent's command after --: %s %s -- COMMAND", refused: "agents add dora sleep 1"},
		tried{hint: "polisctl tasks lists those that are kept; the oldest go first", refused: "tasks show bob.99", do: []string{"tasks"}},
		tried{hint: "polisctl tasks lists them", refused: "tasks show nothing", do: []string{"tasks"}},
		tried{hint: "polisctl run --base TYPE --name %s adds it; polisctl agents list and polisctl agents types show what there is", refused: "run emil true",
			do: []string{"agents list", "agents types"}},
		tried{hint: "leave --base out, or choose another agent with --name", refused: "run --base claude --name bob true"},
		tried{hint: "polisctl approvals list", refused: "approvals approve bob.12345678", do: []string{"approvals list"}},
		tried{hint: "polisctl approvals rules", refused: "approvals revoke nothing", do: []string{"approvals rules"}},
		tried{hint: "polisctl gc --dry-run lists the trash", refused: "restore nobody", do: []string{"gc --dry-run"}},
		tried{hint: "polisctl queue shows who is", refused: "queue remove bob", do: []string{"queue"}},
		tried{hint: "polisctl ports list %s", refused: "ports remove bob 4000", do: []string{"ports list bob"}},
		tried{hint: "roles are tables [roles.NAME] in polisd.toml", refused: "agents add fred --base custom --role writer -- true"},
		tried{hint: "did you mean: %s %s", refused: "agents lis", do: []string{"agents list"}},
		tried{hint: "did you mean: %s", refused: "ls", do: []string{"agents list"}},
		tried{hint: "polisctl agents list", refused: "agents start BAD", do: []string{"agents list"}},
		tried{hint: "polisctl approvals list shows what they ask", refused: "ask hello", do: []string{"approvals list"}},
		tried{hint: "polisctl tasks lists the tasks, polisctl agents stop NAME ends what an agent works on", refused: "done", do: []string{"tasks", "agents stop bob"}},
		tried{hint: "polisctl locks --watch shows who has what; polisctl lock PATH --wait 1m waits for a lock of your own", refused: "wait main.txt",
			do: []string{"locks", "lock " + repo + "/main.txt --wait 1m"}},
		tried{hint: "give a path of the repository; polisctl status lists the workspaces", refused: "lock /nowhere", do: []string{"status"}, shows: repo},
		tried{hint: "elsewhere use: polisctl agents list --watch, polisctl events -f", refused: "tui", do: []string{"agents list", "events"}},
		tried{hint: "polisctl patrol run --once; polisctl patrol --watch follows the patrol of polisd", refused: "patrol run", do: []string{"patrol run --once"}},
		tried{hint: "polisctl patrol cases --all lists them", refused: "patrol show nothing", do: []string{"patrol cases --all"}},
		tried{hint: "polisctl queue lists the agents that are; polisctl queue add %s adds it", refused: "queue priority bob 5", do: []string{"queue", "queue add bob"}},
		tried{hint: "the work may still continue: see polisctl status; a longer time is given by --timeout", refused: "--timeout 1ns agents list", do: []string{"status", "--timeout 1m agents list"}},
		tried{hint: "give a shorter path with --socket or POLIS_SOCKET", refused: "--socket /" + strings.Repeat("x", 200) + " status", do: []string{"--socket " + d.path("run", "polisd.sock") + " status"}},
		tried{hint: "separate names by one comma, or say none", refused: "agents add fred --base custom --egress a.test,,b.test -- true"},
		tried{hint: "--egress none lets the agent reach nothing, --egress default what is configured", refused: "agents set bob --egress=",
			do: []string{"agents set bob --egress default", "agents set bob --egress none"}},
		tried{hint: "--role ROLE replaces all rules; /none is a file of that name", refused: "agents set bob --write none",
			do: []string{"agents set bob --role="}},
		tried{hint: "none opens no port of the host; agents set also knows default", refused: "agents set bob --host-port x"},
		tried{hint: "export it first, or give a value: NAME=VALUE", refused: "agents set bob --env POLIS_NO_SUCH_VARIABLE"},
		tried{hint: "write ./%s for a directory of that name", refused: "up --repo=-odd"},
		tried{hint: "use the whole repository: --repo %s", refused: "up --repo " + repo + "/src " + d.path("ws2"), do: []string{"up --repo=" + repo + " " + d.path("ws")}},
		tried{hint: "polisctl locks lists what is locked", refused: "unlock " + repo + "/src/a.txt", do: []string{"locks"}, shows: "main.txt"},
		tried{hint: "use --yes", refused: "discard bob", do: []string{"discard bob --yes"}},
	)
}

// The states of agents and tasks.
func TestHintsAboutTasks(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--", "sh", "-c", ident+"{prompt}")
	d.add("bare")
	d.must("run", "--wait", "alice", "true")
	d.must("run", "--detach", "alice", "sleep 1000")
	d.trials(t,
		tried{hint: "polisctl tasks retry %s does it again", refused: "tasks cancel alice.1", do: []string{"tasks retry alice.1"}},
		tried{hint: "polisctl tasks %s lists them", refused: "tasks retry alice.2", do: []string{"tasks alice"}, shows: "alice.2"},
		tried{hint: "polisctl agents set %s --env NAME gives them to the agent, or give the task when it is idle", refused: "run --detach --env A=1 alice true",
			do: []string{"agents set alice --env A=1"}},
		tried{hint: "add it with a base type that has one, or with -- CMD", refused: "run --wait bare true"},
		tried{hint: "when its command has ended", refused: "agents leftovers alice --end"},
		tried{hint: "; polisctl agents watch -f %s shows what it works on", refused: "agents run alice true", do: []string{"agents watch alice"}},
	)
	for d.ctl("--json", "run", "--detach", "alice", "true").code == 0 { //nolint:revive // until no more can wait
	}
	d.trials(t, tried{hint: "polisctl tasks %s lists them, polisctl tasks cancel ID drops one", refused: "run --detach alice true", do: []string{"tasks alice", "tasks cancel alice.4"}, then: true})
	d.trials(t, tried{hint: "polisctl agents watch %s shows the last output of its agent", refused: "tasks show alice.6 --output", do: []string{"agents watch alice"}}) // it waits
	d.must("agents", "stop", "alice")
	d.trials(t, tried{hint: "possible now: %s", refused: "send alice hello", do: []string{}})
	d.must("agents", "stop", "bare")
	d.trials(t,
		tried{hint: "polisctl agents start %s", refused: "agents leftovers bare", do: []string{"agents start bare"}, then: true},
		tried{hint: "polisctl agents start --program %s, or polisctl agents shell %s", refused: "agents attach bare", do: []string{"agents start --program bare"}},
	)
	d.add("slow", "--", "sh", "-c", "{prompt}")
	d.trials(t, tried{hint: "it continues: polisctl tasks show %s", refused: "--timeout 10s run --wait slow sleep_1000", do: []string{"tasks show slow.1"}, shows: "sleep 1000"})
	d.add("reads", "--", "sh", "-c", "read x; exit 3")
	d.must("agents", "start", "--program", "reads")
	d.add("hog", "--memory", "96", "--", "sh", "-c", "{prompt}")
	d.must("agents", "run", "hog", "--", "exec /usr/bin/python3 -c 'x = bytearray(300 << 20)'")
	d.eventually("it is in error", func() bool { a, _ := d.agent("hog"); return a.Status == api.StatusError })
	d.trials(t, tried{hint: "; polisctl agents start %s brings it back with all its files", refused: "send hog hello", do: []string{"agents start hog"}})
}

// Branches and merges.
func TestHintsAboutMerges(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"300ms\"\ngrace = \"2s\"\nhold = \"close\"\n[merge]\nprotected = [\"run.sh\"]\ncheck = \"test ! -e bad.txt\"\n"})
	repo := d.up()
	d.add("alice")
	commit := func(agent, script string) {
		d.t.Helper()
		d.sh(agent, script+"; git add -A; "+ident+"git commit -qm work")
	}
	d.trials(t,
		tried{hint: "only commits are merged: are the changes committed?", refused: "merge alice"},
		tried{hint: "polisctl merge %s merges it, polisctl discard %s removes it", refused: "revert --yes alice"},
	)
	commit("alice", "echo two >> main.txt")
	require.NotZero(t, d.exec("alice", "git", "update-ref", "refs/heads/main", "HEAD").code)
	d.eventually("the refusal", func() bool {
		return strings.Contains(d.sh("alice", "cat /run/polis/why"), "the target branch moves only by polisctl merge")
	})
	d.trials(t,
		tried{hint: "polisctl merge %s brings the commits home; --force removes the agent and keeps everything under refs/polis/trash/%s", refused: "agents remove alice",
			do: []string{"merge alice"}, then: true},
	)
	d.add("bob")
	commit("bob", "echo x >> run.sh")
	d.trials(t,
		tried{hint: "merge or stop them; --force removes all agents and keeps everything that is unsaved under refs/polis/trash", refused: "down " + d.path("ws")},
		tried{hint: "the branch has moved since: polisctl merge %s --dry-run shows what it holds now", refused: "merge bob --head 0123456789012345678901234567890123456789", do: []string{"merge bob --dry-run"}, shows: "run.sh"},
		tried{hint: "look at them (polisctl agents diff %s); polisctl merge %s --accept-protected merges them; merge.protected in polisd.toml is the list", refused: "merge bob",
			do: []string{"agents diff bob", "merge bob --accept-protected"}},
	)
	// git can record a change that the view refuses to write.
	d.add("carl", "--read", "**", "--write", "docs/**")
	d.sh("carl", ident+"b=$(echo x | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,new.txt; git commit -qm work")
	d.trials(t,
		tried{hint: "in the agent: git checkout TARGET -- PATH, commit, and merge again; or allow it: polisctl agents set %s --write GLOB (polisctl agents policy %s shows its rules)",
			refused: "merge carl", do: []string{"agents policy carl", "agents set carl --write new.txt"}, then: true},
	)
	d.add("bad")
	commit("bad", "echo x > bad.txt")
	d.trials(t, tried{hint: "polisctl queue log %[1]s prints its output; polisctl merge %[1]s --no-check merges without it", refused: "merge bad", do: []string{"queue log bad", "merge bad --no-check"}})
	commit("bad", "git rm -q bad.txt")
	d.must("merge", "bad")
	// A conflict, which is resolved as the hints say.
	d.add("dora")
	d.add("emil")
	commit("dora", "echo dora > main.txt")
	commit("emil", "echo emil > main.txt")
	d.must("merge", "dora")
	d.hinted("in the agent: git merge %s, resolve, commit; then merge again", "merge", "emil")
	d.hinted("have the agent resolve and commit: polisctl agents run %s \"resolve the merge conflict and commit\"; then polisctl merge %s", "agents", "rebase", "emil")
	d.hinted("have the agent resolve it: polisctl run %s \"resolve the merge conflict and commit\"", "agents", "commit", "emil")
	commit("emil", "echo both > main.txt")
	d.must("merge", "emil")
	require.Equal(t, "both\n", git(t, repo, "show", "main:main.txt"))
}

// What a person reads has a hint for wrong usage, too; --json has the code.
func TestTheHintForWrongUsageIsTheHelp(t *testing.T) {
	d := startDaemon(t, options{})
	r := d.ctl("lock")
	require.NotZero(t, r.code)
	_, hint, _ := strings.Cut(r.stderr, "hint: ")
	require.Regexp(t, pattern("%s --help"), strings.TrimSpace(hint))
	require.Contains(t, d.must(strings.Fields(hint)[1:]...), "PATH")
}
