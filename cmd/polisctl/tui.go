package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// screenProgram draws the screen; see its doc.go for why it is not part of
// polisctl.
const screenProgram = "polis-tui"

func (a *app) tuiCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "tui [-w WORKSPACE]",
		Short: "Watch and control all agents on one screen",
		Long: `Watch and control all agents on one screen: state, branch, merge result, processor,
memory, leases, ports and last output of each, kept up to date by events. Agents that wait
for you are first. It needs a terminal of 40 by 10 cells; from a height of 18 lines on there
are details of the selected agent, and from a width of 110 on every row has the agent's last
output.

Keys:
  up down j k    select an agent; scroll
  enter l        log            d  diff            e  events
  /              filter; /waiting shows only agents that wait for you
  : ctrl+p       commands by the words of polisctl, such as: merge NAME, say NAME TEXT,
                 tasks cancel ID, tasks retry ID, rewind NAME WHEN
  esc            close, clear the filter
  A  questions   C  cases of the patrol: resolve, thaw, stop
  t  tasks, each with its diff and its output
  L  locks       o  leftovers   O  end the leftovers
  a  attach      S  shell       c  commit uncommitted changes
  m              merge          u  undo: revert the merge
  D              discard        s  make ready      x  stop
  i              send a line to a running agent, give a task to another one
  b              send a line to all running agents
  r              reload         ?  help            q  quit

A click selects, a second one opens, and the wheel scrolls; hold shift to select text for
the clipboard. Operations that are hard to undo need a confirmation with y. Without
colours (NO_COLOR, or TERM=dumb) the selected agent is marked by '>'. If the locale is not
UTF-8, borders are ASCII.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only agents of this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if a.json || a.quiet || !isTerminal(a.stdin) || !isTerminal(a.stdout) {
			return usagef("%s needs a terminal, and neither --json nor --quiet", cmd.CommandPath()).
				WithHint("elsewhere use: polisctl agents list --watch, polisctl events -f")
		}
		// A daemon that cannot be reached is reported here, with the exit status for it.
		err := a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error { return c.Health(ctx) })
		if err != nil {
			return err
		}
		return a.screen(workspace)
	}
	return cmd
}

// screen replaces polisctl with the program that draws the screen.
func (a *app) screen(workspace string) error {
	path, err := findBeside(screenProgram)
	if err != nil {
		return err
	}
	args := []string{screenProgram, "--socket", a.client().Socket, "--workspace", workspace, "--timeout", a.timeout.String()}
	if a.colors() {
		args = append(args, "--colors")
	}
	return api.Errorf(api.CodeInternal, "start %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// findBeside returns the path of a program: beside polisctl, as it is built, or where make install
// puts it.
func findBeside(program string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "find %s: %w", program, err)
	}
	dir := filepath.Dir(self)
	for _, p := range []string{filepath.Join(dir, program), filepath.Join(dir, "../lib/polis", program)} {
		switch _, err := os.Stat(p); {
		case err == nil:
			return p, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", api.Errorf(api.CodeInternal, "find %s: %w", program, err)
		}
	}
	return "", api.Errorf(api.CodeInternal, "%s is neither in %s nor in %s", program, dir, filepath.Join(dir, "../lib/polis")).
		WithHint("install polis again: make install puts %s into PREFIX/lib/polis", program)
}
