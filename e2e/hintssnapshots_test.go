package e2e

import (
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
	d.hinted(files.hint, "snapshot", "restore", s.ID, "none")

	d.trials(t, tried{hint: "polisctl timeline %s lists the checkpoints", refused: "rewind alice --to never", do: []string{"timeline alice"}})

	d.sh("alice", "head -c 900000 /dev/urandom > one")
	large := d.snapshot("alice")
	d.sh("alice", "head -c 900000 /dev/urandom > two")
	d.trials(t, tried{hint: "polisctl snapshot rm removes snapshots; snapshots.agent_mb and snapshots.max_mb are the limits", refused: "snapshot create alice",
		do: []string{"snapshot rm " + large.ID}})
	d.sh("alice", "rm one")
	require.NotEqual(t, s.Hash, d.snapshot("alice").Hash)
}
