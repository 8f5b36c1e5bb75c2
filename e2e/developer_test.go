package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/e2e/world"
)

// developer is a polisd on a normal developer's machine, and the user there.
type developer struct {
	*daemon
	w *world.World
}

// newWorld makes a developer's machine.
func newWorld(t *testing.T) *world.World {
	t.Helper()
	needRoot(t)
	needProgram(t, "ssh-keygen")
	needProgram(t, "setpriv")
	dir, err := os.MkdirTemp("/tmp", "polis-world-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	w, err := world.Make(t.Context(), dir, os.Getenv("POLIS_E2E_GIT_LFS"))
	require.NoError(t, err)
	return w
}

// newDeveloper starts polisd on a developer's machine, behind the firewall of one.
func newDeveloper(t *testing.T, config string) *developer {
	t.Helper()
	needProgram(t, "nft")
	w, net := newWorld(t), newInternet(t)
	net.rules(world.UfwRules)
	net.rules(world.DockerRules)
	w.Netns = net.host
	resolv := filepath.Join(w.Dir, "resolv.conf")
	require.NoError(t, os.WriteFile(resolv, []byte("nameserver "+dnsAddr+"\n"), 0o644))
	d := startDaemon(t, options{
		netns: net.host, wrap: w.Inside(),
		mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", w.Tools, w.Tools),
		box:    fmt.Sprintf("path = [%q]", w.Tools),
		config: fmt.Sprintf("[network]\npool = \"10.236.0.0/16\"\nresolv_conf = %q\n%s", resolv, config),
	})
	// The build directory may be closed to others.
	require.NoError(t, w.Tool("polisctl", "#!/bin/sh\nPOLIS_SOCKET="+d.path("run", "polisd.sock")+" exec "+w.Dir+"/polisctl \"$@\"\n"))
	require.NoError(t, os.WriteFile(filepath.Join(w.Dir, "polisctl"), []byte(readFile(filepath.Join(d.bin, "polisctl"))), 0o755))
	return &developer{d, w}
}

// try runs a script as the user, in the project.
func (d *developer) try(script string) result {
	d.t.Helper()
	return capture(d.w.Command(d.t.Context(), d.w.Project, "bash", "-ec", script), "")
}

// user is try, and requires success. The output and the errors come back.
func (d *developer) user(script string) string {
	d.t.Helper()
	r := d.try(script)
	require.Zero(d.t, r.code, "%s\n%s", script, r)
	return r.stdout + r.stderr
}

// TestGuideOnADevelopersMachine runs every command of the guide as an ordinary user of a normal machine.
func TestGuideOnADevelopersMachine(t *testing.T) {
	guide(t, func(t *testing.T, page string, scripts []string) {
		d := newDeveloper(t, "")
		require.NoError(t, d.w.Tool("claude", claudeOfTheGuide))
		if page != "quickstart.md" {
			d.user("polisctl up")
		}
		for _, s := range scripts {
			t.Logf("%s\n%s", s, d.user(s))
		}
	})
}
