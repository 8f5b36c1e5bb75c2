package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestADiskLimitRefusesWhatWouldAdd until something is removed. A limit that is set on a running
// agent applies at once.
func TestADiskLimitRefusesWhatWouldAdd(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--disk", "32")
	d.add("bob")
	a, _ := d.agent("alice")
	require.Equal(t, 32, a.DiskLimitMB)
	d.sh("alice", "head -c 40000000 /dev/zero > big")
	d.eventually("it is measured", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code != 0 })
	r := d.exec("alice", "env", "LC_ALL=C", "sh", "-c", "echo x > small2")
	require.Contains(t, r.stderr, "quota exceeded")
	require.Contains(t, d.must("agents", "why", "alice"), string(api.CodeQuota))
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventDisk)) > 0 })
	e := d.eventsOf(api.EventDisk)[0]
	require.Equal(t, api.CodeQuota, e.Code)
	require.Greater(t, e.Data["used_bytes"], float64(40_000_000))
	require.Contains(t, d.must("agents", "list"), "!disk")
	d.sh("alice", "git status >/dev/null; cat main.txt >/dev/null; mv big bigger")
	d.sh("bob", "head -c 40000000 /dev/zero > bobs")

	d.must("agents", "set", "alice", "--disk", "100")
	d.sh("alice", "echo x > small")
	d.must("agents", "set", "alice", "--disk", "32")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > small3").code)
	d.sh("alice", "rm bigger")
	d.eventually("it is measured again", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code == 0 })

	d.sh("alice", "head -c 40000000 /dev/zero > $HOME/big")
	d.eventually("the home counts", func() bool { return d.exec("alice", "sh", "-c", "echo x > small").code != 0 })
	d.must("agents", "set", "alice", "--disk", "none")
	d.sh("alice", "echo x > small")
}

// TestAFileLimitRefusesNewFiles at the limit, and nothing else. A removal makes room at once.
func TestAFileLimitRefusesNewFiles(t *testing.T) {
	d := startDaemon(t, options{config: "[limits]\ndisk_files = 100000\n"})
	d.up()
	d.add("alice", "--files", "400")
	d.add("bob")
	a, _ := d.agent("alice")
	require.Equal(t, 400, a.DiskLimitFiles)
	b, _ := d.agent("bob")
	require.Equal(t, 100_000, b.DiskLimitFiles, "as configured")
	require.Contains(t, d.must("agents", "set", "alice", "--memory", "256"), "400 files")

	// Thousands of all kinds in a moment, between two measurements.
	d.sh("alice", "mkdir many; echo old > old")
	out := d.exec("alice", "env", "LC_ALL=C", "python3", "-c", `
import os, errno
n = 0
try:
    for i in range(5000):
        p = "many/%d" % i
        (lambda: open(p, "w").close(), lambda: os.mkdir(p), lambda: os.symlink("x", p), lambda: os.mkfifo(p))[i % 4]()
        n += 1
except OSError as e:
    assert e.errno == errno.EDQUOT, e
print(n)`)
	require.Zero(t, out.code, out)
	made, err := strconv.Atoi(strings.TrimSpace(out.stdout))
	require.NoError(t, err)
	require.Less(t, made, 400)
	require.Greater(t, made, 200, "so few are there from the start")
	require.Contains(t, d.exec("alice", "env", "LC_ALL=C", "sh", "-c", "echo x > more").stderr, "quota exceeded")

	why := d.must("agents", "why", "alice")
	require.Contains(t, why, string(api.CodeQuota))
	require.Contains(t, why, "400 files and directories (disk_files)")
	require.Contains(t, d.sh("alice", "cat /run/polis/why"), "disk_files")
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventFiles)) > 0 })
	e := d.eventsOf(api.EventFiles)[0]
	require.Equal(t, api.CodeQuota, e.Code)
	require.Equal(t, float64(400), e.Data["limit_files"])
	require.GreaterOrEqual(t, e.Data["used_files"], float64(400))
	require.Contains(t, d.must("agents", "list"), "!files")
	require.Empty(t, d.eventsOf(api.EventDisk))

	// Programs that make no new file continue, and existing work can be committed.
	d.sh("alice", "echo new >> old; ln old older; mv older many/0; truncate -s 5M old; chmod 600 old; git status; git add old; git commit -qm old")
	d.sh("bob", "mkdir bobs; cd bobs; seq 500 | xargs touch")

	// A removal makes room at once. Between two measurements, nothing is measured.
	d.sh("alice", "rm -r many/1*; for i in 1 2 3 4 5; do echo x > again$i; done")
	d.must("agents", "set", "alice", "--files", "100")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > small").code)
	d.must("agents", "set", "alice", "--files", "none")
	d.sh("alice", "mkdir far; cd far; seq 500 | xargs touch")

	// Files outside of the view are measured periodically, and so is the agent's own part of git.
	d.must("agents", "set", "alice", "--files", "2000")
	d.sh("alice", "mkdir $HOME/many; cd $HOME/many; seq 2000 | xargs touch")
	d.eventually("the home counts", func() bool { return d.exec("alice", "sh", "-c", "echo x > small && rm small").code != 0 })
	d.sh("alice", "rm -r $HOME/many")
	d.eventually("there is room", func() bool { return d.exec("alice", "sh", "-c", "echo x > small && rm small").code == 0 })
	r := d.exec("alice", "sh", "-c", "cd $(git rev-parse --git-common-dir) && mkdir own && cd own && seq 3000 | xargs touch")
	require.Contains(t, r.stderr, "quota exceeded")
	d.sh("alice", "rm -r $(git rev-parse --git-common-dir)/own; echo x > small")
}
