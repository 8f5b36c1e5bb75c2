package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	walkedFiles = 100_000
	// walkedRSS is what a shim may keep after a walk through so many files, in kB, once it is
	// idle. Some 15 MB are the program itself, which all shims share.
	walkedRSS = 40 << 10
	// unprunedRSS is the same where the kernel cannot be made to forget: before Linux 6.18.
	unprunedRSS = 44 << 10
)

// prunes reports whether the kernel has FUSE_NOTIFY_PRUNE.
func prunes(t testing.TB) bool {
	t.Helper()
	var major, minor int
	_, err := fmt.Sscanf(readFile("/proc/sys/kernel/osrelease"), "%d.%d", &major, &minor)
	require.NoError(t, err)
	return major > 6 || major == 6 && minor >= 18
}

// shimOf is the directory below /proc of an agent's shim.
func (d *daemon) shimOf(agent string) string {
	d.t.Helper()
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		args := strings.Split(readFile(f), "\x00")
		if len(args) > 2 && filepath.Base(args[0]) == "polis-shim" && strings.HasPrefix(args[2], d.dir+"/") && strings.Contains(args[2], "/"+agent+"/") {
			return filepath.Dir(f)
		}
	}
	d.t.Fatalf("agent %s has no shim", agent)
	return ""
}

var rssLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)

// rss is the resident memory of a process, in kB.
func rss(t testing.TB, proc string) int {
	t.Helper()
	m := rssLine.FindStringSubmatch(readFile(filepath.Join(proc, "status")))
	require.NotNil(t, m, "%s has no resident memory", proc)
	kb, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return kb
}

// manyFiles makes empty files in an agent's tree, a thousand in each directory, without the
// view, which would take long. git ignores the directory.
func (d *daemon) manyFiles(a, dir string, files int) {
	d.t.Helper()
	agent, ok := d.agent(a)
	require.True(d.t, ok)
	d.must("agents", "stop", a)
	top := filepath.Join(agent.WorktreePath, dir)
	for i := range files {
		below := filepath.Join(top, fmt.Sprintf("module%03d", i/1000))
		if i%1000 == 0 {
			require.NoError(d.t, os.MkdirAll(below, 0o755))
		}
		f, err := os.Create(filepath.Join(below, fmt.Sprintf("source-file-%05d.txt", i)))
		require.NoError(d.t, err)
		require.NoError(d.t, f.Close())
	}
	d.must("agents", "start", "--program", a)
}

func TestAnIdleShimGivesTheMemoryOfAWalkBack(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("walker")
	d.manyFiles("walker", "build", walkedFiles)
	shim := d.shimOf("walker")
	before := rss(t, shim)
	require.Equal(t, fmt.Sprint(walkedFiles), strings.TrimSpace(d.sh("walker", "find build -type f -size -9 | wc -l")))
	walked, least, most := rss(t, shim), 0, unprunedRSS
	if prunes(t) {
		most = walkedRSS
	}
	t.Cleanup(func() {
		t.Logf("the shim has %d kB before the walk, %d kB after it and %d kB when idle", before, walked, least)
	})
	require.Eventually(t, func() bool {
		least = rss(t, shim)
		return least < most
	}, 2*patience, 250*time.Millisecond)
	require.Equal(t, "0", strings.TrimSpace(d.sh("walker", "find build -name source-file-99999.txt -printf %s")))
}
