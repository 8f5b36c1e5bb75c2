package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timed runs git status twice and prints the milliseconds of each.
const timed = `import subprocess, time
for i in range(3):
    began = time.perf_counter()
    subprocess.run(["git", "-c", "safe.directory=*", "status", "--porcelain"], check=True, stdout=subprocess.DEVNULL)
    print(round((time.perf_counter() - began) * 1000))`

// BenchmarkSharedWorktrees prints what agents on one base tree cost, for docs/performance.md; no figure fails it. The
// repository has POLIS_FILES files (100,000). It drops the page cache of the machine.
func BenchmarkSharedWorktrees(b *testing.B) {
	needProgram(b, "rg")
	files, err := strconv.Atoi(os.Getenv("POLIS_FILES"))
	if err != nil {
		files = 100_000
	}
	for _, layers := range []string{"view", "auto"} {
		b.Run("layers="+layers, func(b *testing.B) {
			d := startDaemon(b, options{config: fmt.Sprintf("max_agents = 60\n[workspace]\nworktree = \"shared\"\nlayers = %q\n", layers)})
			src := d.path("src")
			manyFiles(b, src, files)
			d.giveAway(src)
			d.must("up", "--repo", src, d.path("ws"))
			shared(d, src, layers)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// manyFiles makes a repository of files of 1 to 6 KB.
func manyFiles(tb testing.TB, src string, files int) {
	tb.Helper()
	require.NoError(tb, os.Mkdir(src, 0o755))
	git(tb, src, "init", "-q", "-b", "main")
	cmd := exec.CommandContext(tb.Context(), "git", "-C", src, "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	w := bufio.NewWriter(in)
	fmt.Fprint(w, "commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 5\nmany\n")
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("line %d of a file\n", i*7919), 50+i%200)
		fmt.Fprintf(w, "M 100644 inline d%d/e%d/file%d.txt\ndata %d\n%s\n", i%50, i/50%20, i, len(text), text)
	}
	require.NoError(tb, w.Flush())
	require.NoError(tb, in.Close())
	require.NoError(tb, cmd.Wait())
	git(tb, src, "checkout", "-qf", "main")
	syscall.Sync()
}

func shared(d *daemon, src, layers string) {
	b := d.t
	row := func(what string, format string, args ...any) {
		fmt.Printf("%-5s %-52s %s\n", layers, what, fmt.Sprintf(format, args...))
	}
	took := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began).Round(time.Millisecond)
	}
	native := func(name string) time.Duration {
		syscall.Sync()
		return took(func() { git(b, src, "worktree", "add", "-q", "-b", name, d.path(name)) })
	}
	fmt.Println()
	before := native("native1")
	syscall.Sync()
	base := took(func() { d.add("agent0") })
	after := native("native2")
	row("git worktree add, before and after", "%v %v", before, after)
	row("agents add, no base", "%v", base)

	agents := 20
	var add, read, again, fork []time.Duration
	for i := 1; i < agents; i++ {
		add = append(add, took(func() { d.add(fmt.Sprintf("agent%d", i)) }))
	}
	row("agents add, base there, median of 19", "%v", median(add))
	for i := range 7 {
		name := fmt.Sprintf("reader%d", i)
		read = append(read, took(func() { d.add(name, "--read-only") }))
		d.must("agents", "stop", name)
		again = append(again, took(func() { d.must("agents", "start", "--program", name) }))
	}
	row("agents add --read-only; start of one that exists", "%v %v", median(read), median(again))
	d.sh("agent1", "git ls-files | head -100 | while read f; do echo more >> $f; done")
	for i := range 7 {
		fork = append(fork, took(func() { d.must("agents", "fork", "agent1", fmt.Sprintf("fork%d", i)) }))
	}
	row("agents fork, 100 changed files", "%v", median(fork))

	for i := range 3 {
		out, err := exec.CommandContext(b.Context(), "sh", "-c", "cd "+d.path("native2")+" && python3 -c '"+timed+"'").CombinedOutput()
		require.NoError(b, err, string(out))
		row("git status, native: three in turn, ms", "%s", strings.Fields(string(out)))
		row("git status, agent: three in turn, ms", "%s", strings.Fields(d.sh(fmt.Sprintf("agent%d", i+2), "python3 -c '"+timed+"'")))
	}

	one := blocks(b, d.path("native1"), "")
	all := blocks(b, filepath.Join(d.path("ws"), ".polis"), "")
	index := blocks(b, filepath.Join(d.path("ws"), ".polis"), "index")
	row("disk of a checkout; of all agents and the base; indexes", "%d MB %d MB %d MB", one>>20, all>>20, index>>20)

	cached := func(f func()) int { // MB
		syscall.Sync()
		require.NoError(b, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
		at := meminfo(b)
		f()
		return meminfo(b) - at
	}
	search := "rg -q nothing-has-this-text . || true"
	row("page cache after rg in a native checkout", "%d MB", cached(func() {
		require.NoError(b, exec.CommandContext(b.Context(), "sh", "-c", "cd "+d.path("native1")+" && "+search).Run())
	}))
	row("the same in one agent", "%d MB", cached(func() { d.sh("agent5", search) }))
	row("the same in 20 agents", "%d MB", cached(func() {
		for i := range agents {
			d.sh(fmt.Sprintf("agent%d", i), search)
		}
	}))
}

// blocks is what a tree takes on its file system, in bytes, without what is mounted in it: files with the name only, if
// it is not "".
func blocks(tb testing.TB, root, name string) (n int64) {
	tb.Helper()
	var top syscall.Stat_t
	require.NoError(tb, syscall.Lstat(root, &top))
	require.NoError(tb, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		switch {
		case err != nil:
			return err
		case st.Dev != top.Dev && e.IsDir():
			return filepath.SkipDir
		case name == "" || e.Name() == name:
			n += st.Blocks * 512
		}
		return nil
	}))
	return n
}

// meminfo is the page cache of the machine in MB.
func meminfo(tb testing.TB) int {
	tb.Helper()
	for line := range strings.Lines(readFile("/proc/meminfo")) {
		if f := strings.Fields(line); f[0] == "Cached:" {
			kb, err := strconv.Atoi(f[1])
			require.NoError(tb, err)
			return kb >> 10
		}
	}
	tb.Fatal("no Cached in /proc/meminfo")
	return 0
}
