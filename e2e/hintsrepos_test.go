package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Workspaces and projects that are not what they should be.
func TestHintsAboutWorkspaces(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	d.add("alice")
	require.NoError(t, exec.Command("chown", "-R", "0:0", repo).Run()) // git clones its user's repositories only
	git(t, d.dir, "clone", "-q", repo, d.path("second"))
	git(t, d.dir, "clone", "-q", repo, d.path("third"))
	git(t, repo, "config", "uploadpack.allowFilter", "true")
	git(t, repo, "rm", "-q", "run.sh")
	git(t, repo, "commit", "-qm", "one file is in the history only")
	// git fetch --refetch packs everything afterwards, by default in the background, where it would remove files while they change hands.
	git(t, d.dir, "clone", "-q", "--config", "gc.autoDetach=false", "--no-local", "--filter=blob:none", "file://"+repo, d.path("partial"))
	git(t, d.dir, "clone", "-q", "--bare", repo, d.path("bare"))
	for _, dir := range []string{d.path("bare"), repo, d.path("second"), d.path("third"), d.path("partial")} {
		d.giveAway(dir)
	}
	d.must("up", "--repo", d.path("bare"), d.path("ws5")) // a bare repository is cloned

	// A partial clone, made whole as the hint says.
	given := d.hinted("git -C %s fetch --refetch --no-filter %s makes it complete", "up", "--repo", d.path("partial"), d.path("ws3"))
	require.NoError(t, exec.Command("chown", "-R", "0:0", repo, d.path("partial")).Run())
	command, _, _ := strings.Cut(given, " makes it complete")
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	d.giveAway(repo)
	d.giveAway(d.path("partial"))
	d.must("up", "--repo", d.path("partial"), d.path("ws3"))
	d.must("up", "--repo", d.path("second"), d.path("ws2"))

	// A shared repository without a target, and a workspace without a shared repository.
	head := d.path("ws2", ".polis", "bare-repo.git", "HEAD")
	require.NoError(t, os.WriteFile(head, []byte("damaged\n"), 0o644))
	d.trials(t, tried{hint: "polisctl up --repo PATH --target BRANCH %s sets it", refused: "agents add bob -w ws2 --base custom -- true",
		do: []string{"up --repo " + d.path("second") + " --target main " + d.path("ws2")}, then: true})
	d.must("agents", "remove", "bob")
	require.NoError(t, os.Rename(d.path("ws2", ".polis", "bare-repo.git"), d.path("gone")))
	d.trials(t, tried{hint: "polisctl up --repo PATH %s makes it", refused: "agents add bob -w ws2 --base custom -- true",
		do: []string{"up --repo " + d.path("second") + " " + d.path("ws2")}, then: true})
	d.must("agents", "remove", "bob")

	// What cannot be opened is known, and opened when it is whole again.
	d.must("up", "--repo", d.path("third"), d.path("ws4"))
	bare := d.path("ws3", ".polis", "bare-repo.git")
	d.stop()
	require.NoError(t, os.Rename(d.path("third"), d.path("moved")))
	require.NoError(t, os.Remove(d.path("ws2", "project")))
	require.NoError(t, os.Rename(filepath.Join(bare, "config"), d.path("config")))
	d.start()
	status := d.must("status")
	for _, hint := range []string{"put the project back; if it was moved or cloned again on purpose: polisctl workspace move %s PATH", "polisctl up --repo PATH|URL %s"} {
		require.Regexp(t, `(?m)warning: .*; `+strings.Trim(pattern(hint), "^$"), status)
	}
	d.trials(t, tried{hint: "polisctl status shows why it could not be opened; polisctl up --repo PATH %s opens it when that is fixed", refused: "down ws3",
		do: []string{"status"}, shows: "ws3"})
	require.NoError(t, os.Rename(d.path("config"), filepath.Join(bare, "config")))
	d.must("up", "--repo", d.path("partial"), d.path("ws3"))
	d.must("up", "--repo", d.path("moved"), d.path("ws4"))
	d.must("up", "--repo", d.path("second"), d.path("ws2"))

	// A shim that does not work: the one that does shows what it finds.
	good := readFile(d.path("polisd.toml"))
	shim := filepath.Join(d.bin, "polis-shim")
	d.stop()
	require.NoError(t, os.WriteFile(d.path("broken"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	d.write("polisd.toml", strings.ReplaceAll(good, shim, d.path("broken")))
	r := d.polisd("--config", d.path("polisd.toml"))
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "polis-shim --doctor shows details")
	out, err = exec.Command(shim, "--doctor").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "namespace")
	d.write("polisd.toml", good)
	d.start()
}
