package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHintsAboutSnapshots(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nmax_mb = 1\n"})
	d.up()
	d.add("alice")
	s := d.snapshot("alice")
	list := tried{hint: "polisctl snapshot list", refused: "snapshot verify s0000000000", do: []string{"snapshot list"}}
	files := tried{hint: "polisctl snapshot show %s --files", refused: "snapshot show " + s.ID + " none", do: []string{"snapshot show " + s.ID + " --files"}}
	d.trials(t, list, files)
	d.hinted(list.hint, "snapshot", "diff", s.ID, d.snapshot("alice", "--all").ID)
	d.hinted(files.hint, "snapshot", "show", s.ID, "src")
	d.restorable("alice", s.ID, func() { d.hinted(files.hint, "snapshot", "restore", s.ID, "none") })

	d.trials(t, tried{hint: "polisctl timeline %s lists the checkpoints", refused: "rewind alice --to never", do: []string{"timeline alice"}},
		tried{hint: "polisctl timeline %s lists the checkpoints; polisctl agents diff %s shows what it changed since the target", refused: "diff alice", do: []string{"timeline alice", "agents diff alice"}})

	mounted := tried{hint: "polisctl snapshot umount %s", refused: "snapshot mount " + s.ID, do: []string{"snapshot umount " + s.ID}}
	d.must("snapshot", "mount", s.ID)
	d.trials(t, mounted, tried{hint: "polisctl snapshot show %s", refused: "snapshot umount " + s.ID, do: []string{"snapshot show " + s.ID}})
	d.hinted("give an empty directory, by a path without symbolic links", "snapshot", "mount", s.ID, "--at", d.path("run"))
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	d.hinted("give an empty directory, by a path without symbolic links", "snapshot", "mount", s.ID, "--at", full)
	many := t.TempDir()
	for i := range 16 {
		d.sh("alice", fmt.Sprintf("echo %d > n", i))
		d.must("snapshot", "mount", d.snapshot("alice").ID, "--at", mkdir(t, many, fmt.Sprint(i)))
	}
	d.hinted("polisctl snapshot umount ID unmounts one", "snapshot", "mount", s.ID)
	d.must("snapshot", "mount", s.ID, "--inside")
	d.trials(t, tried{hint: "polisctl snapshot umount %s --inside", refused: "snapshot mount " + s.ID + " --inside", do: []string{"snapshot umount " + s.ID + " --inside"}})
	for _, x := range d.timeline("alice")[1:9] {
		d.must("snapshot", "mount", x.ID, "--inside")
	}
	d.hinted("polisctl snapshot umount ID --inside unmounts one", "snapshot", "mount", s.ID, "--inside")
	require.Contains(t, d.exec("alice", "polisctl", "snapshot", "mount", "--at", "/tmp").stderr, "leave it out: a checkpoint is mounted below /run/polis/snapshots")
	d.must("agents", "stop", "alice")
	d.hinted("polisctl agents start %s", "snapshot", "mount", s.ID)
	require.Empty(t, d.snapshotMounts(), "a stopped agent has none")
	d.must("agents", "start", "alice")
	d.must("snapshot", "mount", s.ID)
	d.add("bob")
	d.trials(t, tried{hint: "polisctl snapshot create %s", refused: "snapshot mount bob", do: []string{"snapshot create bob"}})

	d.sh("alice", "head -c 900000 /dev/urandom > one")
	large := d.snapshot("alice")
	d.sh("alice", "head -c 900000 /dev/urandom > two")
	d.trials(t, tried{hint: "polisctl snapshot rm removes snapshots; snapshots.agent_mb and snapshots.max_mb are the limits", refused: "snapshot create alice",
		do: []string{"snapshot rm " + large.ID}})
	d.sh("alice", "rm one")
	require.NotEqual(t, s.Hash, d.snapshot("alice").Hash)
}
