package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A symptom brings a daemon into the state that a row of docs/troubleshooting.md describes, and requires that the
// state shows what the row's first cell has. It returns what the placeholders of the row's commands stand for.
type symptom func(t *testing.T, d *daemon) map[string]string

// TestTroubleshooting stages the symptoms of docs/troubleshooting.md and runs the commands of their rows, each of which
// must succeed. Every row is staged here or by a test that elsewhere names.
func TestTroubleshooting(t *testing.T) {
	rows := troubles(t)
	d := startDaemon(t, options{config: "max_agents = 40\n[merge]\ncheck = \"! test -e broken\"\n"})
	d.up()
	for what, stage := range symptoms {
		row, ok := rows[what]
		if !ok {
			t.Errorf("docs/troubleshooting.md has no row %q", what)
			continue
		}
		t.Run(what, func(t *testing.T) {
			of := *d
			of.t = t
			values := stage(t, &of)
			for _, words := range rowCommands(row, values) {
				r := of.ctl(words...)
				require.Zero(t, r.code, "polisctl %s: %s", strings.Join(words, " "), r)
			}
		})
		delete(rows, what)
	}
	sources := ""
	for _, name := range append(glob("*_test.go"), glob("systemd/*_test.go")...) {
		sources += readFile(name)
	}
	for what, test := range elsewhere {
		if _, ok := rows[what]; !ok {
			t.Errorf("docs/troubleshooting.md has no row %q", what)
		}
		require.Contains(t, sources, "func "+test+"(t *testing.T)", "%s is tested by it", what)
		delete(rows, what)
	}
	for what := range rows {
		t.Errorf("docs/troubleshooting.md has the row %q, which no test stages", what)
	}
}

// elsewhere has the rows that need a machine, a service or a program of their own, and the tests that have them.
var elsewhere = map[string]string{
	"a program cannot save a file that a rule names (`perl -i` then leaves it unchanged, and ends with status 0)": "TestWithoutTemporaryFilesSingleFilesAreWrittenInPlace",
	"a file such as `F.orig` that the agent cannot rename or commit":                                              "TestTemporaryFilesOfAStoppedAgent",
	"a task waits and does not begin":                                   "TestStartMakesAnAgentReady",
	"tasks are `lost` after a reboot":                                   "TestALostTaskIsKeptAndItsFollowersWait",
	"a dev server shows the old state after a rewind, or an old `.env`": "TestWatchersInAnAgentSeeARewind",
	"polisd ends at once":                                               "TestTroubleshootingOfTheStart",
	"polisctl: polisd is not running":                                   "TestTroubleshootingOfTheStart",
	"polisctl: no permission to use the socket":                         "TestTroubleshootingOfTheStart",
	"another polisd uses `/run/polis`":                                  "TestTroubleshootingOfTheStart",
	"`/dev/fuse` is missing, or FUSE is refused":                        "TestDegradedIsRefusedUnlessItIsAllowed",
	"isolation is degraded":                                             "TestDegradedIsRefusedUnlessItIsAllowed",
	"the program starts and wants a login":                              "TestRealAgents",
	"state `Error`, `OOM_KILLED`":                                       "TestMemoryLimitKillsAndIsReported",
	"the state is frozen":                                               "TestADeletionBreakerFreezes",
	"a name does not resolve, or a connection is refused":               "TestEgressOpenAndNone",
	"address already in use, on the host":                               "TestATakenPortIsSkipped",
	"git: an object is withheld":                                        "TestGitShowsNoFileThatIsWithheld",
	"a test that watches files sees no change":                          "TestTwoAgentsWorkApart",
	"`df` or `ls` hangs in a view":                                      "TestAShimThatHangsIsNoticedWhenARequestWaits",
	"the disk is full":                                                  "TestAFullDiskRefusesChangesAndLosesNothing",
	"`Transport endpoint is not connected` on the host":                 "TestTroubleshootingOfTheStart",
	"mounts, links or rules stay after a crash":                         "TestTroubleshootingOfTheStart",
	"after a downgrade an agent has a \"protocol version\" error":       "TestPackages",
}

var symptoms = map[string]symptom{
	"the program is not installed, or is in a home that the agent cannot read": func(_ *testing.T, d *daemon) map[string]string {
		require.NotZero(d.t, d.ctl("agents", "run", d.addNew("none"), "x").code)
		return nil
	},
	"state `Error`, \"its shim died\"": func(_ *testing.T, d *daemon) map[string]string {
		d.add("dead")
		d.shimDies("dead")
		require.Contains(d.t, d.must("status")+d.must("agents", "list"), "its shim died")
		return map[string]string{"NAME": "dead"}
	},
	"`Permission denied`, `No such file or directory` for a file that exists": func(_ *testing.T, d *daemon) map[string]string {
		d.add("denied", "--read", "src/**", "--write", "docs/**", "--hide", "README.md")
		d.fails("denied", "echo x >> src/a.txt", "Permission denied")
		d.fails("denied", "cat README.md", "No such file or directory")
		require.Contains(d.t, d.must("agents", "why", "denied"), "src/a.txt")
		d.must("agents", "set", "denied", "--write", "src/**", "--write", "README.md")
		d.sh("denied", "echo x >> src/a.txt")
		d.fails("denied", "cat README.md", "No such file or directory")
		d.must("agents", "set", "denied", "--role", "")
		d.sh("denied", "cat README.md")
		return map[string]string{"NAME": "denied", "GLOB": "main.txt", "''": ""}
	},
	"agents or merges are slow": func(_ *testing.T, d *daemon) map[string]string {
		d.worker("slow")
		d.task("slow", "sleep 2; "+commitOf("slow.txt", "slow"))
		d.eventually("top shows that it works", func() bool { return strings.Contains(d.must("top", "--json"), `"name": "slow"`) })
		require.Equal(d.t, api.OutcomeMerged, d.settled("slow").Outcome)
		require.Regexp(d.t, `ended .*, after [2-9]\S*`, d.must("tasks", "show", "slow.1"))
		return map[string]string{"ID": "slow.1"}
	},
	"`Device or resource busy`": func(_ *testing.T, d *daemon) map[string]string {
		d.add("holder")
		d.add("second")
		d.sh("holder", "echo mine >> src/b.txt")
		d.fails("second", "echo x >> src/b.txt", "Device or resource busy")
		d.heldBy("holder", "src/b.txt")
		return map[string]string{"PATH": "src/b.txt"}
	},
	"`Read-only file system`": func(_ *testing.T, d *daemon) map[string]string {
		d.add("reader", "--read-only")
		d.fails("reader", "echo x > new", "Read-only file system")
		require.Contains(d.t, d.must("agents", "why", "reader"), "READ_ONLY")
		return map[string]string{"NAME": "reader"}
	},
	"`No space left on device`, `Disk quota exceeded`": func(_ *testing.T, d *daemon) map[string]string {
		d.add("small", "--disk", "16")
		d.sh("small", "head -c 40000000 /dev/zero > big")
		d.eventually("it is measured", func() bool { return d.exec("small", "sh", "-c", "echo x > more").code != 0 })
		d.fails("small", "echo x > more", "quota exceeded")
		return map[string]string{"NAME": "small", "MB": "64"}
	},
	"`Operation not permitted` for a system call": func(_ *testing.T, d *daemon) map[string]string {
		d.add("calls")
		d.fails("calls", "unshare -Ur true", "Operation not permitted")
		d.eventually("the reason", func() bool { return strings.Contains(d.must("agents", "why", "calls", "--all"), "unshare") })
		return map[string]string{"NAME": "calls"}
	},
	"nothing happens for a long time": func(_ *testing.T, d *daemon) map[string]string {
		d.add("asks")
		d.asking("asks", "polisctl ask 'shall I?' || true")
		return map[string]string{"NAME": "asks"}
	},
	"nothing to merge": func(_ *testing.T, d *daemon) map[string]string {
		d.add("idle")
		d.sh("idle", "echo idle > idle.txt")
		require.Contains(d.t, d.ctl("merge", "idle").stderr, "only commits are merged")
		return map[string]string{"NAME": "idle"}
	},
	"`MERGE_CONFLICT`": func(_ *testing.T, d *daemon) map[string]string {
		d.add("one")
		d.sh("one", ident+commitOf("main.txt", "of one"))
		d.must("locks", "break", "main.txt")
		d.add("two")
		d.sh("two", ident+commitOf("main.txt", "of two"))
		d.must("merge", "one")
		d.refused(api.CodeMergeConflict, "merge", "two")
		return nil
	},
	"the check failed": func(_ *testing.T, d *daemon) map[string]string {
		d.worker("breaks")
		d.task("breaks", commitOf("broken", "x"))
		d.eventually("the failed check", func() bool { return strings.Contains(d.must("queue"), "polisctl queue rework breaks") })
		return map[string]string{"NAME": "breaks"}
	},
	"`project: left alone`: the checkout was not updated": func(_ *testing.T, d *daemon) map[string]string {
		require.NoError(d.t, os.WriteFile(d.path("src", "docs", "guide.md"), []byte("of a person\n"), 0o644))
		d.add("guide")
		d.sh("guide", ident+commitOf("docs/guide.md", "of guide"))
		r := d.ctl("merge", "guide")
		require.Contains(d.t, r.stdout, "project: left alone")
		require.Regexp(d.t, `warning: .* uncommitted changes .*git -C \S+ merge --ff-only`, r.stdout+r.stderr)
		return nil
	},
	"memory is short": func(*testing.T, *daemon) map[string]string { return nil },
}

// TestTroubleshootingOfTheStart has the rows about a polisd that does not run.
func TestTroubleshootingOfTheStart(t *testing.T) {
	d := startDaemon(t, options{})
	d.write("bad.toml", "max_agent = 3\n")
	r := d.polisd("--check", "--config", d.path("bad.toml"))
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "max_agent", "--check names the key")
	r = d.polisd("--config", d.path("polisd.toml"))
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "another polisd uses "+d.path("run"))
	require.Contains(t, r.stderr, "polisd.lock")

	cmd := exec.CommandContext(t.Context(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", filepath.Join(d.bin, "polisctl"), "status")
	cmd.Env = []string{"POLIS_SOCKET=" + d.path("run", "polisd.sock")}
	r = capture(cmd, "")
	require.Contains(t, r.stderr, "no permission to use "+d.path("run", "polisd.sock"))
	require.Contains(t, r.stderr, "usermod -aG polis")

	cmd = exec.CommandContext(t.Context(), filepath.Join(d.bin, "polisctl"), "status")
	cmd.Env = []string{"POLIS_SOCKET=" + d.path("run", "none.sock")}
	r = capture(cmd, "")
	require.Contains(t, r.stderr, "polisd is not running")
	require.Contains(t, r.stderr, "start polisd", "the hint; with systemd it has the systemctl command")

	d.up()
	d.add("crashed")
	shim := d.shim("crashed")
	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, syscall.Kill(shim, syscall.SIGKILL))
	d.eventually("the end of the shim", func() bool { return d.living() == 0 })
	require.NotEmpty(t, d.mounts(), "a crash leaves mounts")
	d.eventually("the end of its connection", func() bool { // its files are closed after its memory is gone
		_, err := os.ReadDir(d.path("ws", ".polis", "worktrees", "crashed"))
		return err != nil && strings.Contains(err.Error(), "transport endpoint is not connected")
	})
	r = d.polisd("--cleanup", "--config", d.path("polisd.toml"))
	require.Zero(t, r.code, r)
	require.Empty(t, d.mounts())
}

var code = regexp.MustCompile("`([^`]+)`")

// troubles returns the rows of the page's tables, by their first cell.
func troubles(t *testing.T) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(readFile("../docs/troubleshooting.md")) {
		cells := strings.SplitN(line, "|", 3)
		if len(cells) != 3 || cells[0] != "" {
			continue
		}
		what := strings.TrimSpace(cells[1])
		if what == "you see" || what == "it says" || strings.HasPrefix(what, "---") {
			continue
		}
		require.NotContains(t, rows, what, "two rows have one symptom")
		rows[what] = cells[2]
	}
	require.Greater(t, len(rows), 25)
	return rows
}

// rowCommands returns the polisctl commands of a row that end and change only what the stage made.
func rowCommands(row string, values map[string]string) (commands [][]string) {
	for _, m := range code.FindAllStringSubmatch(row, -1) {
		words := strings.Fields(m[1])
		if words[0] != "polisctl" || len(words) > 2 && (words[2] == "watch" || words[2] == "attach") {
			continue
		}
		for i, w := range words {
			if v, ok := values[w]; ok {
				words[i] = v
			}
		}
		commands = append(commands, words[1:])
	}
	return commands
}
