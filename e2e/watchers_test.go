package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// inotifyOf prints the events of the directories that it gets, one a line: their names, and the path.
const inotifyOf = `
import ctypes, os, struct, sys
names = {2: "MODIFY", 4: "ATTRIB", 8: "CLOSE_WRITE", 0x40: "MOVED_FROM", 0x80: "MOVED_TO", 0x100: "CREATE", 0x200: "DELETE", 0x400: "DELETE_SELF"}
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
at = {}
for d in sys.argv[1:]:
    wd = libc.inotify_add_watch(fd, d.encode(), sum(names))
    assert wd >= 0, d
    at[wd] = d
print("READY", flush=True)
while True:
    b = os.read(fd, 65536)
    while b:
        wd, mask, _, size = struct.unpack("iIII", b[:16])
        name = b[16:16 + size].rstrip(b"\0").decode()
        b = b[16 + size:]
        for bit, text in names.items():
            if mask & bit:
                print(text, os.path.join(at.get(wd, "?"), name), flush=True)
`

// fsWatchOf prints what fs.watch of Node reports of a directory and what is below.
const fsWatchOf = `
require("fs").watch(".", {recursive: true}, (what, name) => console.log(what, name));
console.log("READY");
`

// watcher is a program in an agent that reports what it sees to a file.
type watcher struct {
	d           *daemon
	agent, file string
}

// watches starts a program that watches, in an agent's worktree.
func (d *daemon) watches(agent, name, program, code string, args ...string) *watcher {
	d.t.Helper()
	w := &watcher{d: d, agent: agent, file: "/tmp/" + name}
	r := d.exec(agent, append([]string{"sh", "-c", `file=$1 code=$2 program=$3; shift 3
printf %s "$code" >"$file.code"
setsid "$program" "$file.code" "$@" >>"$file" 2>&1 </dev/null &`, "sh", w.file, code, program}, args...)...)
	require.Zero(d.t, r.code, "%s", r)
	d.eventually(name+" watches", func() bool { return slices.Contains(w.lines(), "READY") })
	return w
}

func (w *watcher) lines() []string {
	return strings.Split(strings.TrimSpace(w.d.exec(w.agent, "cat", w.file).stdout), "\n")
}

// sees waits until the watcher has reported these, in this order.
func (w *watcher) sees(want ...string) {
	w.d.t.Helper()
	var got []string
	ok := func() bool {
		got = w.lines()
		at := 0
		for _, line := range got {
			if at < len(want) && line == want[at] {
				at++
			}
		}
		return at == len(want)
	}
	defer func() {
		if w.d.t.Failed() {
			w.d.t.Logf("%s: %q", w.file, got)
		}
	}()
	w.d.eventually(strings.Join(want, ", "), ok)
}

// counters are those of an agent.
func (d *daemon) counters(agent string) api.Counters {
	d.t.Helper()
	var a api.Agent
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "metrics", agent)), &a))
	return *a.Counters
}

// forget empties the report.
func (w *watcher) forget() { w.d.sh(w.agent, ": >"+w.file) }

// A dev server watches its files. It must see a rewind as it sees a program's own changes, or it shows what
// was discarded.
func TestWatchersInAnAgentSeeARewind(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	first := d.checkpoint("alice")
	const work = "echo more >>main.txt; rm src/a.txt; mkdir src/new; echo n >src/new/n; ln -s n src/link; echo s >src/deep/er/c.txt; rm -r docs; echo more >>run.sh"
	d.sh("alice", work)
	native := d.watches("alice", "inotify", "python3", inotifyOf, ".", "src", "src/new", "src/deep/er")
	node := d.watches("alice", "node", "node", fsWatchOf)
	counted := d.counters("alice")

	if os.Getenv("POLIS_E2E_WORKTREE") == "above" {
		d.rewind("alice", "--to", first.ID) // "It is refused while the agent runs" (docs/view.md), and ends the watchers
		require.Empty(t, d.sh("alice", "git status --porcelain"))
		return
	}
	r := d.rewind("alice", "--to", first.ID)
	native.sees("DELETE src/new/n", "DELETE src/new")
	native.sees("DELETE src/new/n", "DELETE_SELF src/new/")
	native.sees("DELETE src/link")
	native.sees("DELETE ./main.txt", "CREATE ./main.txt", "MODIFY ./main.txt", "CLOSE_WRITE ./main.txt")
	native.sees("DELETE ./run.sh", "CREATE ./run.sh", "MODIFY ./run.sh")
	native.sees("CREATE src/a.txt", "MODIFY src/a.txt", "CLOSE_WRITE src/a.txt")
	native.sees("CREATE ./docs")
	native.sees("MODIFY src/deep/er/c.txt")
	for _, line := range []string{"change main.txt", "rename src/a.txt", "rename src/new", "rename docs", "change src/deep/er/c.txt"} {
		node.sees(line)
	}
	now := d.counters("alice")
	require.Equal(t, []int64{counted.WriteCount, counted.WriteDenied}, []int64{now.WriteCount, now.WriteDenied}, "nothing is counted as the agent's")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt"))
	require.Empty(t, d.sh("alice", "git status --porcelain"))

	// Back, as an undo, and once more.
	native.forget()
	d.must("snapshot", "restore", r.Before)
	native.sees("DELETE src/a.txt")
	native.sees("CREATE src/new")
	native.sees("CREATE src/link")
	native.sees("MODIFY ./main.txt")
	require.Equal(t, "n\n", d.sh("alice", "cat src/new/n; test -L src/link"))
}

// The owner's .env shows in every agent, and so do its changes to programs that watch.
func TestWatchersInAnAgentSeeTheOwnersChangeOfASharedFile(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	d.seed(repo, map[string]string{".gitignore": ".env*\n"})
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "What is ignored")
	d.seed(repo, map[string]string{".env": "SECRET=1\n", "src/.env": "SECRET=1\n"})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	above := os.Getenv("POLIS_E2E_WORKTREE") == "above"
	require.Equal(t, "SECRET=1\n", d.sh("alice", "cat .env"))
	if !above { // there it does not show in a directory of the base tree
		require.Equal(t, "SECRET=1\n", d.sh("alice", "cat src/.env"))
	}
	native := d.watches("alice", "inotify", "python3", inotifyOf, ".", "src")
	node := d.watches("alice", "node", "node", fsWatchOf)

	d.seed(repo, map[string]string{".env": "SECRET=22\n", "src/.env": "SECRET=22\n"})
	native.sees("MODIFY ./.env", "CLOSE_WRITE ./.env")
	if !above {
		native.sees("MODIFY src/.env")
	}
	node.sees("change .env")
	require.Equal(t, "SECRET=22\n", d.sh("alice", "cat .env"))

	native.forget()
	require.NoError(t, os.WriteFile(filepath.Join(repo, ".env.tmp"), []byte("SECRET=333\n"), 0o644))
	require.NoError(t, os.Rename(filepath.Join(repo, ".env.tmp"), filepath.Join(repo, ".env"))) // as an editor saves
	native.sees("MODIFY ./.env", "CLOSE_WRITE ./.env")
	require.Equal(t, "SECRET=333\n", d.sh("alice", "cat .env"))
	if !above {
		d.seed(repo, map[string]string{".env.new": "NEW=1\n"})
		native.sees("CREATE ./.env.new", "CLOSE_WRITE ./.env.new")
		require.NoError(t, os.Remove(filepath.Join(repo, ".env.new")))
		native.sees("DELETE ./.env.new")
	}
	require.Empty(t, d.locks(), "nothing takes a lease")
	require.Equal(t, "SECRET=333\n", readFile(filepath.Join(repo, ".env")))
}

// Before a task the branch of an agent is brought to the target, below its view.
func TestWatchersInAnAgentSeeTheirBranchBroughtForward(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	d.add("bob")
	native := d.watches("alice", "inotify", "python3", inotifyOf, ".", "src")
	d.sh("bob", ident+"echo new >src/new.txt; rm src/a.txt; echo four >>main.txt; git add -A; git commit -qm forward")
	d.must("merge", "bob")
	d.task("alice", "cat src/new.txt")
	native.sees("DELETE src/a.txt")
	native.sees("CREATE src/new.txt")
	native.sees("MODIFY ./main.txt")
}
