package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests do as coding agents do that were seen at work.

// Codex runs "bash -lc", and Debian's /etc/profile resets PATH.
func TestEveryShellFindsTheProgramsOfTheSandbox(t *testing.T) {
	o := standIns(t, "claude")
	d := startDaemon(t, o)
	d.up()
	d.add("alice")
	for _, shell := range [][]string{
		{"bash", "-lc"}, {"env", "-i", "bash", "-lc"}, {"bash", "-ic"}, {"env", "-i", "bash", "-ic"},
		{"sh", "-lc"}, {"env", "-i", "sh", "-lc"},
		{"zsh", "-c"}, {"zsh", "-lc"}, {"env", "-i", "/usr/bin/zsh", "-lc"}, {"env", "-i", "/usr/bin/zsh", "-c"},
		{"fish", "-c"}, {"fish", "-lc"}, {"env", "-i", "/usr/bin/fish", "-lc"},
	} {
		program := shell[len(shell)-2]
		if _, err := exec.LookPath(program); err != nil {
			needProgram(t, program[strings.LastIndex(program, "/")+1:])
		}
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			r := d.exec("alice", append(shell, "command -v claude && command -v polisctl && claude --version")...)
			require.Zero(t, r.code, r.String())
			require.Contains(t, r.stdout, "/run/polis/bin/polisctl")
			require.Contains(t, r.stdout, "arg=--version")
		})
	}
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x >> /etc/profile || mv /etc/profile /etc/p || rm -f /etc/profile").code, "it is not the agent's to change")
	require.Equal(t, "/first", strings.SplitN(d.exec("alice", "bash", "-c", `PATH=/first:$PATH bash -ic 'echo $PATH'`).stdout, ":", 2)[0],
		"what a program put first stays first")
}
