package e2e

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/hostile/grammar.py
var grammar string

// hostileSeeds has the seeds that once found a fault, with what it was.
//
//go:embed testdata/hostile/seeds
var hostileSeeds string

// contentBound bounds each verb, whatever the content. It is generous, because the machine may be
// busy. A verb that waits for a pipe would take minutes.
const contentBound = 100 * time.Second

// TestHostileContent fills agents' worktrees, indexes, trees, git files, refs and
// configurations by a grammar, runs every verb, and requires that nothing ran
// on the host, that other agents work, that the agent can be removed, and that
// nothing it had is lost.
//
// POLIS_CONTENT_FUZZ is how long to continue with new seeds after those that are
// kept, such as 1h (make fuzz-content). POLIS_CONTENT_SEED runs one seed alone.
func TestHostileContent(t *testing.T) {
	needRoot(t)
	needProgram(t, "python3")
	var seeds []uint64
	for line := range strings.Lines(hostileSeeds) {
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			require.NoError(t, err)
			seeds = append(seeds, n)
		}
	}
	first := uint64(time.Now().UnixNano()) % (1 << 31)
	if one := os.Getenv("POLIS_CONTENT_SEED"); one != "" {
		n, err := strconv.ParseUint(one, 10, 32)
		require.NoError(t, err)
		seeds = []uint64{n}
	}
	var end time.Time
	if text := os.Getenv("POLIS_CONTENT_FUZZ"); text != "" {
		long, err := time.ParseDuration(text)
		require.NoError(t, err)
		end = time.Now().Add(long)
	}
	w := newHostileWorld(t)
	for i := 0; i < len(seeds) || time.Now().Before(end); i++ {
		n := first + uint64(i)
		if i < len(seeds) {
			n = seeds[i]
		}
		if !t.Run(fmt.Sprint(n), func(t *testing.T) { w.try(t, n) }) {
			t.Logf("POLIS_CONTENT_SEED=%d does it again", n)
			if !end.IsZero() {
				w = newHostileWorld(t) // damage of this seed would fail every later one
				continue
			}
			return
		}
	}
	d := w.d
	d.stop()
	d.start()
	w.othersWork(t, "after a new start")
}

// hostileWorld is a polisd with an honest agent.
type hostileWorld struct {
	d    *daemon
	mark string
	n    int
}

func newHostileWorld(t *testing.T) *hostileWorld {
	d := startDaemon(t, options{config: "[merge]\nprotected = []\n"})
	project := d.up()
	w := &hostileWorld{d: d, mark: d.path("marks", "ran")}
	require.NoError(t, os.Mkdir(d.path("marks"), 0o777))
	require.NoError(t, os.Chmod(d.path("marks"), 0o777))
	d.add("honest", "--auto-merge=false")

	// The positive control: what the grammar plants does run in an unconfined git.
	git(t, project, "-c", "core.fsmonitor=touch '"+w.mark+"'", "status")
	require.FileExists(t, w.mark)
	require.NoError(t, os.Remove(w.mark))
	return w
}

var internalError = regexp.MustCompile(`"code": ?"INTERNAL"`)

func (w *hostileWorld) try(t *testing.T, seed uint64) {
	d := &daemon{t: t, dir: w.d.dir, bin: w.d.bin}
	name := fmt.Sprintf("h%d", seed)
	a := d.add(name, "--auto-merge=false", "--memory", "400")
	precious := fmt.Sprintf("precious of %d", seed)
	d.sh(name, "echo "+precious+" > precious.txt")
	made := d.ctlInput(grammar, "agents", "exec", name, "--", "python3", "-", fmt.Sprint(seed), w.mark)
	t.Logf("seed %d:\n%s%s", seed, made.stdout, made.stderr)

	verb := func(args ...string) result {
		t.Helper()
		began := time.Now()
		r := d.ctl(append([]string{"--json"}, args...)...)
		what := strings.Join(args, " ")
		require.Less(t, time.Since(began), contentBound, "polisctl %s: %s", what, r)
		require.NotRegexp(t, internalError, r.stderr, "polisctl %s", what)
		require.NoFileExists(t, w.mark, "polisctl %s ran the agent's program on the host", what)
		return r
	}
	for _, args := range [][]string{
		{"status"}, {"agents", "list"}, {"agents", "diff", name}, {"agents", "diff", "--stat", name}, {"agents", "diff", "--name-only", name}, {"agents", "why", name}, {"agents", "locks", name},
		{"conflicts"}, {"top"}, {"merge", "--dry-run", name}, {"agents", "rebase", name}, {"agents", "stop", name}, {"agents", "diff", name}, {"merge", name},
		{"agents", "start", name}, {"queue"}, {"revert", name}, {"maintenance", "--now"}, {"gc", "--dry-run"},
	} {
		verb(args...)
	}
	w.othersWork(t, "beside it")
	r := verb("agents", "remove", name, "--force")
	require.Zero(t, r.code, "remove: %s", r)
	require.NoDirExists(t, a.WorktreePath)
	w.kept(t, d, name, precious)
	r = verb("restore", name)
	if r.code == 0 {
		r = verb("discard", "--yes", name)
		require.Zero(t, r.code, "discard: %s", r)
	}
	verb("maintenance", "--now")
	w.othersWork(t, "after it")
}

// kept requires that the work is on the disk: as files, as a commit in the trash or on a branch, or
// merged.
func (w *hostileWorld) kept(t *testing.T, d *daemon, name, precious string) {
	t.Helper()
	found := false
	require.NoError(t, filepath.WalkDir(d.path("ws", ".polis", "trash"), func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if errors.Is(err, syscall.ENAMETOOLONG) { // the agent made a directory deeper than a path can be
			return filepath.SkipDir
		}
		if err == nil && e.Name() == "precious.txt" && strings.TrimSpace(readFile(path)) == precious {
			found = true
		}
		return err
	}))
	for dir, refs := range map[string][]string{d.internal(): {"refs/polis/"}, d.bare(): {"refs/heads/main", "refs/heads/agent/" + name}} {
		for _, ref := range strings.Fields(git(t, dir, append([]string{"for-each-ref", "--format=%(refname)"}, refs...)...)) {
			found = found || reaches(t, dir, ref, precious)
		}
	}
	require.True(t, found, "the work of %s is lost", name)
}

// reaches reports whether a commit in the ref's history has the precious file. The content of an
// agent may be unreadable.
func reaches(t *testing.T, dir, ref, precious string) bool {
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*", "-C", dir}, args...)...)
		out, _ := cmd.Output() // an unreadable tree has no file
		return string(out)
	}
	for _, commit := range strings.Fields(run("log", "-n", "20", "--format=%H", ref, "--")) {
		if strings.TrimSpace(run("show", commit+":precious.txt")) == precious {
			return true
		}
	}
	return false
}

// othersWork requires that an honest agent can edit, commit and be merged, and that the repository
// is sound.
func (w *hostileWorld) othersWork(t *testing.T, when string) {
	t.Helper()
	w.n++
	d := &daemon{t: t, dir: w.d.dir, bin: w.d.bin}
	d.sh("honest", fmt.Sprintf("git status --short; echo %d > honest.txt; git add honest.txt; "+ident+"git commit -qm %d; git log --oneline >/dev/null", w.n, w.n))
	began := time.Now()
	d.must("merge", "honest")
	require.Less(t, time.Since(began), contentBound, when)
	require.Equal(t, fmt.Sprint(w.n), strings.TrimSpace(git(t, d.bare(), "show", "main:honest.txt")), when)
	git(t, d.bare(), "rev-list", "--objects", "main")
	require.NoFileExists(t, w.mark, when)
}
