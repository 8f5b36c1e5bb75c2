package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys reach the programs of their agent only, and apply to the next task.
func TestVariablesOfAnAgent(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.coder]\nread = [\"**\"]\nwrite = [\"**\"]\n[roles.coder.env]\nFROM_ROLE = \"role-s3cret\"\nBOTH = \"role-s3cret\"\n" +
		"[agents.alice.env]\nFROM_FILE = \"file-s3cret\"\nBOTH = \"file-s3cret\"\n"})
	d.up()
	d.write("keys", "# keys\n\nFROM_ENV_FILE=file s3cret\nUSER_SET\nMINE=from-file-s3cret\n")
	t.Setenv("USER_SET", "passed-s3cret")
	show := []string{"--role", "coder", "--env-file", d.path("keys"), "--env", "MINE=own-s3cret=x", "--", "sh", "-c", "{prompt}"}
	a := d.add("alice", show...)
	require.Equal(t, []string{"BOTH", "FROM_ENV_FILE", "FROM_FILE", "FROM_ROLE", "MINE", "USER_SET"}, a.Env)
	d.add("bob", "--", "sh", "-c", "{prompt}")
	values := func(name string) string {
		t.Helper()
		d.must("agents", "run", name, `printf '%s\n' "$BOTH" "$FROM_ENV_FILE" "$FROM_FILE" "$FROM_ROLE" "$MINE" "$USER_SET" | md5sum >~/out; printf %s "$MINE" >~/mine`)
		d.idle(name)
		return d.sh(name, "cat ~/mine")
	}
	require.Equal(t, "own-s3cret=x", values("alice"))
	require.Equal(t, d.sh("alice", `printf '%s\n' file-s3cret 'file s3cret' file-s3cret role-s3cret own-s3cret=x passed-s3cret | md5sum`), d.sh("alice", "cat ~/out"))
	require.Empty(t, values("bob"), "each has its own")
	require.Equal(t, "own-s3cret=x", d.sh("alice", `printf %s "$MINE"`), "exec has them too")

	// They apply to the next task, without a stop. Running programs keep their variables.
	out := d.must("agents", "set", "alice", "--env", "MINE=second-s3cret", "--unset-env", "USER_SET")
	require.Contains(t, out, "BOTH, FROM_ENV_FILE, FROM_FILE, FROM_ROLE, MINE")
	require.NotContains(t, out, "USER_SET")
	require.Equal(t, "second-s3cret", values("alice"))
	require.Equal(t, "second-s3cret", d.sh("alice", `printf %s "$MINE$USER_SET"`))

	// For one task alone.
	d.must("agents", "run", "alice", "--env", "MINE=once-s3cret", `printf %s "$MINE" >~/mine`)
	d.idle("alice")
	require.Equal(t, "once-s3cret", d.sh("alice", "cat ~/mine"))
	require.Equal(t, "second-s3cret", values("alice"))

	// polisd has them after a restart, and after the loss of its state.
	d.stop()
	d.start()
	d.must("agents", "start", "alice")
	require.Equal(t, "second-s3cret", values("alice"))

	for _, bad := range [][]string{{"--env", "POLIS_X=s3cret"}, {"--env", "PATH=s3cret"}, {"--env", "A-B=s3cret"}, {"--env", "NOT_SET_ANYWHERE"}, {"--unset-env", "NOTHING"}, {"--env-file", "/nonexistent"}} {
		r := d.ctl(append([]string{"agents", "set", "alice"}, bad...)...)
		require.NotZero(t, r.code, r.String())
		require.NotContains(t, r.stdout+r.stderr, "s3cret")
	}
	// Only root's own files contain them.
	for _, args := range [][]string{{"agents", "list"}, {"status"}, {"events"}, {"agents", "tasks", "alice"}, {"agents", "why", "alice"}, {"agents", "types"}, {"doctor"}} {
		require.NotContains(t, d.ctl(args...).stdout, "s3cret", "%q", args)
		require.NotContains(t, d.ctl(append([]string{"--json"}, args...)...).stdout, "s3cret", "%q", args)
	}
	require.NotContains(t, readFile(d.path("polisd.log")), "s3cret")
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		require.NotContains(t, readable(f), "s3cret", f)
	}
	require.NoError(t, filepath.WalkDir(d.dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			// Above a view the overlay alone lists what is in its upper layer.
			if strings.HasPrefix(p, d.path("ws", ".polis", "worktrees")+"/") || filepath.Base(p) == "upper" {
				return filepath.SkipDir
			}
			return err
		}
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || p == d.path("keys") || p == d.path("polisd.toml") || strings.HasSuffix(p, "/mine") {
			return err
		}
		if strings.Contains(readable(p), "s3cret") {
			require.Equal(t, os.FileMode(0o600), fi.Mode().Perm(), p)
			require.EqualValues(t, 0, owns(fi), p)
		}
		return nil
	}))
}

// readable returns the text of a file, "" if it does not exist.
func readable(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func TestVariablesInTheConfigurationAreChecked(t *testing.T) {
	d := startDaemon(t, options{})
	for _, text := range []string{"[roles.a.env]\nPOLIS_X = \"s3cret\"\n", "[agents.alice.env]\n\"A-B\" = \"s3cret\"\n", "[agents.\"UP\".env]\nA = \"s3cret\"\n", "[agents.alice]\nenvs = 1\n"} {
		d.write("other.toml", text)
		r := d.polisd("--config", d.path("other.toml"))
		require.NotZero(t, r.code)
		require.NotContains(t, r.stdout+r.stderr, "s3cret")
	}
}
