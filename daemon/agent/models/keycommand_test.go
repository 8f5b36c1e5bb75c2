package models

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyProgram makes a program that prints what is in a file, and counts its runs.
func keyProgram(t *testing.T) (program, says, runs string) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the command runs as another user
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	program, says, runs = filepath.Join(dir, "key"), filepath.Join(dir, "says"), filepath.Join(dir, "runs")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$# $1 $(id -un) $(env | cut -d= -f1 | sort | tr '\\n' ' ')\" >>"+runs+"\n. "+says+"\n"), 0o755)) //nolint:gosec // a program
	return program, says, runs
}

func say(t *testing.T, file, script string) {
	require.NoError(t, os.WriteFile(file, []byte(script), 0o644)) //nolint:gosec // read by another user
}

func count(t *testing.T, runs string) int {
	b, err := os.ReadFile(runs)
	require.NoError(t, err)
	return strings.Count(string(b), "\n")
}

func commandSource(t *testing.T, program string) *Source {
	me, err := user.Current()
	require.NoError(t, err)
	t.Setenv("SECRET_OF_POLISD", "x")
	return source(t, fmt.Sprintf("[models.m]\nkind = \"openai\"\nkey_command = [%q, \"a b; $c\"]\nkey_user = %q\n[services.s]\nurl = \"https://example.com\"\npaths = [\"/**\"]\nkey_command = [%q]\nkey_user = %q\n"+
		"[gateway]\nmodels = [\"m\"]\n[roles.s.gateway]\nmodels = []\nservices = [\"s\"]", program, me.Username, program, me.Username), nil)
}

func TestACommandPrintsTheKey(t *testing.T) {
	program, says, runs := keyProgram(t)
	say(t, says, "echo "+key+"; echo diagnostics >&2")
	s := commandSource(t, program)
	now := time.Now()
	s.Now = func() time.Time { return now }
	get := func() string {
		t.Helper()
		m, err := s.For(t.Context(), "")
		require.NoError(t, err)
		return m.Models[0].Key
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			m, err := s.For(t.Context(), "")
			if err != nil || m.Models[0].Key != key {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, count(t, runs), "agents that start at once wait for one command")
	b, err := os.ReadFile(runs)
	require.NoError(t, err)
	require.Contains(t, string(b), "1 a b; $c ", "there is no shell")
	require.NotContains(t, string(b), "SECRET_OF_POLISD")

	const other = key + "-2"
	say(t, says, "echo "+other)
	require.Equal(t, key, get())
	s.Renew() // a reload
	require.Equal(t, other, get())
	require.Equal(t, other, get())
	require.Equal(t, 2, count(t, runs))
	say(t, says, "echo "+key)
	require.False(t, s.Refused("m"), "a key that is new is not the reason")
	require.False(t, s.Refused("other"))
	now = now.Add(keyPause)
	require.True(t, s.Refused("m"))
	require.False(t, s.Refused("m"), "once")
	require.Equal(t, key, get())
	now = now.Add(2 * time.Hour) // more than key_refresh
	say(t, says, "echo "+other)
	require.Equal(t, other, get())
	require.Equal(t, 4, count(t, runs))
	m, err := s.For(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, other, m.Services[0].Key)
}

func TestACommandThatFailsLeavesTheKeyBefore(t *testing.T) {
	program, says, runs := keyProgram(t)
	s := commandSource(t, program)
	now := time.Now()
	s.Now = func() time.Time { return now }
	for script, want := range map[string]string{
		"echo " + key + "; exit 1":              "exit status 1",
		"exec true":                             "must print a key, and nothing else",
		"echo short":                            "printable ASCII",
		"echo " + key + " " + key:               "printable ASCII",
		"head -c 100000 /dev/zero | tr '\\0' a": "must print a key, and nothing else",
	} {
		say(t, says, script)
		now = now.Add(keyPause)
		m, err := s.For(t.Context(), "")
		require.ErrorIs(t, err, errNoKey, script)
		require.ErrorContains(t, err, want, script)
		require.NotContains(t, err.Error(), key)
		require.Empty(t, m.Models)
		n := count(t, runs)
		_, err = s.For(t.Context(), "")
		require.ErrorIs(t, err, errNoKey)
		require.Equal(t, n, count(t, runs), "a failure is not repeated at once")
	}
	say(t, says, "echo "+key)
	now = now.Add(keyPause)
	_, err := s.For(t.Context(), "")
	require.NoError(t, err)
	say(t, says, "exit 1")
	s.Renew()
	m, err := s.For(t.Context(), "")
	require.ErrorIs(t, err, errNoKey, "it is reported")
	require.Equal(t, key, m.Models[0].Key, "the key before is used")
}

func TestProgramsThatOthersCanReplaceAreRefused(t *testing.T) {
	program, says, runs := keyProgram(t)
	say(t, says, "echo "+key)
	dir := filepath.Dir(program)
	for name, change := range map[string]func() func(){
		"writable by others":                   func() func() { return mode(t, program, 0o757) },
		"writable, with a bit for directories": func() func() { return mode(t, program, 0o757|os.ModeSticky) },
		"of a directory that others can write": func() func() { return mode(t, dir, 0o777) },
		"no program":                           func() func() { return mode(t, program, 0o644) },
		"gone": func() func() {
			require.NoError(t, os.Rename(program, program+".x"))
			return func() { require.NoError(t, os.Rename(program+".x", program)) }
		},
	} {
		undo := change()
		_, err := commandSource(t, program).For(t.Context(), "")
		undo()
		require.ErrorIs(t, err, errNoKey, name)
	}
	require.NoFileExists(t, runs)
	_, err := commandSource(t, program).For(t.Context(), "")
	require.NoError(t, err)
}

// TestAFileThatWasReplacedIsANewKey when the service refuses the one before: without a reload.
func TestAFileThatWasReplacedIsANewKey(t *testing.T) {
	file := write(t, "key", key, 0o600)
	s := source(t, "[models.m]\nkind = \"openai\"\nkey_file = \""+file+"\"\n[services.s]\nurl = \"https://example.com\"\npaths = [\"/**\"]\nkey_file = \""+file+"\"\n[gateway]\nmodels = [\"m\"]\nservices = [\"s\"]", nil)
	require.False(t, s.Refused("m"), "no agent has it")
	_, err := s.For(t.Context(), "")
	require.NoError(t, err)
	for _, name := range []string{"m", "s"} {
		require.False(t, s.Refused(name), "it is the same")
	}
	require.NoError(t, os.WriteFile(file, []byte(key+"-2"), 0o600))
	for _, name := range []string{"m", "s"} {
		require.True(t, s.Refused(name))
	}
	require.False(t, s.Refused("other"))
	m, err := s.For(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, key+"-2", m.Models[0].Key)
	require.Equal(t, key+"-2", m.Services[0].Key)
	require.False(t, s.Refused("m"))
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // that is what is tested
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	require.False(t, s.Refused("m"), "a key that others can read is none")
}

// TestALinkThatOthersCanReplaceIsRefused: also one in the middle of the path, and one to a good program.
func TestALinkThatOthersCanReplaceIsRefused(t *testing.T) {
	program, says, runs := keyProgram(t)
	say(t, says, "echo "+key)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Dir(program), filepath.Join(dir, "keys")))
	through := filepath.Join(dir, "keys", filepath.Base(program))
	_, err := commandSource(t, through).For(t.Context(), "")
	require.NoError(t, err, "root's links are followed")
	require.Equal(t, 1, count(t, runs))
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // that is what is tested
	_, err = commandSource(t, through).For(t.Context(), "")
	require.ErrorIs(t, err, errNoKey)
	require.ErrorContains(t, err, dir+" can be changed by others")
	require.Equal(t, 1, count(t, runs))

	good := write(t, "key", key, 0o600)
	require.NoError(t, os.Symlink(filepath.Dir(good), filepath.Join(dir, "files")))
	text := "[models.m]\nkind = \"openai\"\nkey_file = \"" + filepath.Join(dir, "files", "key") + "\"\n[gateway]\nmodels = [\"m\"]"
	_, err = source(t, text, nil).For(t.Context(), "")
	require.ErrorContains(t, err, dir+" can be changed by others")
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the link is root's
	m, err := source(t, text, nil).For(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, key, m.Models[0].Key)
}

func TestAnInterpreterThatOthersCanReplaceIsRefused(t *testing.T) {
	program, says, runs := keyProgram(t)
	say(t, says, "echo "+key)
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	shell := filepath.Join(filepath.Dir(program), "shell")
	sh, err := os.ReadFile("/bin/sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(shell, sh, 0o755))                                                           //nolint:gosec // a program
	require.NoError(t, os.WriteFile(program, []byte(strings.Replace(string(text), "/bin/sh", shell, 1)), 0o755)) //nolint:gosec // a program
	m, err := commandSource(t, program).For(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, key, m.Models[0].Key)
	require.NoError(t, os.Chmod(shell, 0o757)) //nolint:gosec // that is what is tested
	_, err = commandSource(t, program).For(t.Context(), "")
	require.ErrorIs(t, err, errNoKey)
	require.ErrorContains(t, err, "key_command: the interpreter of "+program+": "+shell+" can be changed by others: chmod go-w it")
	require.Equal(t, 1, count(t, runs))
}

func mode(t *testing.T, path string, m os.FileMode) func() {
	fi, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, m))
	return func() { require.NoError(t, os.Chmod(path, fi.Mode().Perm())) }
}
