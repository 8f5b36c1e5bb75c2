//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// timing is how long one run took: from the command to the first request to the model, from
// the command to the program's end, its processor time, and that of the shim.
type timing struct{ first, whole, cpu, shim time.Duration }

// answerTime is how long an answer of the slow model takes. Models of vendors take more.
const answerTime = time.Second

// rounds is how often each program does its work, in polis and outside: POLIS_AGENTS_ROUNDS.
func rounds() int {
	n, err := strconv.Atoi(os.Getenv("POLIS_AGENTS_ROUNDS"))
	if err != nil || n < 1 {
		return 3
	}
	return n
}

// control is the same program in a clone of the project outside polis, as the same user.
type control struct {
	r     *realRun
	t     testing.TB
	clone string
	env   []string
}

func (r *realRun) outside(t testing.TB) *control {
	c := &control{r: r, t: t, clone: r.path("control", "clone")}
	home, tmp := r.path("control", "home"), r.path("control", "tmp") // some leave files in TMPDIR
	for _, dir := range []string{home, tmp, c.clone} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	r.giveAway(r.path("control"))
	c.env = []string{"HOME=" + home, "TMPDIR=" + tmp, "TERM=xterm-256color", "LANG=C.UTF-8", "PATH=" + filepath.Join(r.install, "node_modules", ".bin") + ":" + os.Getenv("PATH")}
	for k, v := range r.types()[r.name].Env {
		c.env = append(c.env, k+"="+v)
	}
	for _, e := range r.realAgent.env {
		c.env = append(c.env, r.fill(e))
	}
	c.must("git", "clone", "-q", r.project, c.clone)
	c.must("git", "config", "user.name", "control")
	c.must("git", "config", "user.email", "control@localhost")
	c.must("sh", "-ec", r.fill(r.setup))
	return c
}

// command is a command as the agents' user. What it leaves running ends with it.
func (c *control) command(words ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*patience)
	c.t.Cleanup(cancel)
	id := strconv.Itoa(owner)
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", "setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups",
		"sh", "-c", `"$@"; exit $?`, "sh"}, words...)...)
	cmd.Dir, cmd.Env = c.clone, c.env
	return cmd
}

func (c *control) must(words ...string) string {
	out, err := c.command(words...).CombinedOutput()
	require.NoError(c.t, err, "%v\n%s\n%s", words, out, c.r.model.log())
	return string(out)
}

// works does a round of the work.
func (c *control) works(round int) timing {
	c.r.model.play(work(c.clone, c.r.name, round)...)
	cmd := c.command(c.r.types()[c.r.name].PromptCommand(nil, "- make a file, test it and commit it")...)
	begin := time.Now()
	out, err := inTerminal(cmd)
	end := time.Now()
	require.NoError(c.t, err, "%s\n%s", out, c.r.model.log())
	require.Contains(c.t, c.must("git", "log", "--format=%s"), "work "+strconv.Itoa(round)+" of "+c.r.name, "%s\n%s", out, c.r.model.log())
	first, _ := c.r.model.played()
	return timing{first.Sub(begin), end.Sub(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), 0}
}

// inTerminal runs a command as polis runs a task: its output is a terminal, its input is empty.
// Programs draw more on one than they write to a pipe.
func inTerminal(cmd *exec.Cmd) ([]byte, error) {
	screen, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer screen.Close()
	cmd.Stdout, cmd.Stderr = tty, tty
	err = cmd.Start()
	tty.Close()
	if err != nil {
		return nil, err
	}
	out, _ := io.ReadAll(screen) // EIO when the last program has closed it
	return out, cmd.Wait()
}

// timed runs a task in polis.
func (r *realRun) timed(prompt string) timing {
	cpu, shim := r.cpu()
	begin := time.Now()
	r.must("agents", "run", r.name, "--", prompt)
	got := r.ended()
	first, _ := r.model.played()
	cpuAfter, shimAfter := r.cpu()
	return timing{first.Sub(begin), got.Ended.Sub(begin), cpuAfter - cpu, shimAfter - shim}
}

// ended waits for the end of the last task. Some programs take a minute on a machine with other work.
func (r *realRun) ended() (last api.Task) {
	require.Eventually(r.t, func() bool {
		all := r.tasks(r.name)
		last = all[len(all)-1]
		return last.Ended != nil
	}, 5*patience, 100*time.Millisecond, "%s", r.model.log())
	return last
}

// cpu is the processor time that the agent's sandbox and its shim have used.
func (r *realRun) cpu() (sandbox, shim time.Duration) {
	var top api.Top
	require.NoError(r.t, json.Unmarshal([]byte(r.must("top", "--json")), &top))
	for _, a := range top.Agents {
		if a.Name == r.name {
			return time.Duration(a.CPUMicros) * time.Microsecond, time.Duration(a.Shim.CPUMicros) * time.Microsecond
		}
	}
	return 0, 0
}
