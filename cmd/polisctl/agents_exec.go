package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/http/client"
)

// ttyFlags set whether the command gets a terminal.
type ttyFlags struct {
	force, never, noInput bool
	workspace             string // where the agent has to be; "": anywhere
}

func (f *ttyFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.force, "tty", "t", false, "give the command a terminal (default: if you have one)")
	cmd.Flags().BoolVarP(&f.never, "no-tty", "T", false, "give the command no terminal")
	cmd.Flags().StringVarP(&f.workspace, "workspace", "w", "", "only an agent of this `WORKSPACE`")
}

// inWorkspace refuses an agent that is not in the workspace. An empty workspace refuses none.
func inWorkspace(ctx context.Context, c *client.Client, name, workspace string) error {
	if workspace == "" {
		return nil
	}
	got, err := c.Agent(ctx, name)
	if err == nil && got.Workspace != workspace {
		err = api.Errorf(api.CodeAgentNotFound, "there is no agent %s in workspace %s: it is in %s", clean(name), clean(api.Shorten(workspace, 64)), clean(got.Workspace)).WithHint("--workspace %s", got.Workspace)
	}
	return err
}

// decide returns whether the command gets a terminal.
func (f *ttyFlags) decide(a *app) (bool, error) {
	switch {
	case f.force && f.never:
		return false, usagef("--tty and --no-tty cannot be used together")
	case f.force:
		return true, nil
	case f.never || f.noInput:
		return false, nil
	}
	return isTerminal(a.stdin) && isTerminal(a.stdout), nil
}

func (a *app) execCmd() *cobra.Command {
	var tty ttyFlags
	var env []string
	cmd := &cobra.Command{
		Use:   "exec [OPTION]... NAME [--] CMD [ARG]...",
		Short: "Run a command in an agent's sandbox",
		Long: `Run a command in an agent's sandbox, with its files, ports and limits. Input,
output and signals are passed on, and the exit status is the command's own. On a
terminal the command gets a terminal. Options come before NAME; the words after NAME
are the command. The sandbox of a stopped agent is started, without its program.

A path for which the policy of the agent requires an approval is refused at once:
questions are for the agent's own program, and not for a person's command.

A command that has not ended 10 s after SIGTERM or SIGHUP (2 s on a terminal), or after
the third signal, is killed, and one whose agent is frozen after 2 s.`,
		Example: `  polisctl agents exec claude -- go test ./...
  polisctl agents exec claude git log --oneline
  tar c src | polisctl agents exec claude -- tar x`,
		Args:              takes(2, -1, "the NAME of an agent and a CMD"),
		ValidArgsFunction: a.completeAgents,
		Annotations:       map[string]string{passesStatus: "yes"},
	}
	cmd.Flags().SetInterspersed(false)
	tty.add(cmd)
	cmd.Flags().BoolVarP(&tty.noInput, "no-stdin", "n", false, "send no input")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "set `NAME=VALUE` for the command; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, command := args[0], args[1:]
		if command[0] == "--" {
			command = command[1:]
		}
		if len(command) == 0 {
			return usagef("%s needs a CMD after %s", cmd.CommandPath(), clean(name))
		}
		if err := checkAgents(name); err != nil {
			return err
		}
		if err := checkCommand(command); err != nil {
			return err
		}
		if err := checkEnv(env); err != nil {
			return err
		}
		return a.enter(cmd, name, tty, wire.ExecRequest{Command: command, Env: env}, (*client.Client).Exec)
	}
	return cmd
}

func checkEnv(env []string) error {
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) || len(e) >= maxPrompt {
			return usagef("env %q is not valid: it must be NAME=VALUE", clean(api.Shorten(e, 80)))
		}
	}
	return nil
}

// shellScript starts the first of its arguments that is there.
const shellScript = `for s; do p=$(command -v "$s") && exec "$p"; done; echo "polis: no shell in this sandbox" >&2; exit 127`

func (a *app) shellCmd() *cobra.Command {
	var tty ttyFlags
	cmd := &cobra.Command{
		Use:   "shell NAME",
		Short: "Open a shell in an agent's sandbox",
		Long: `Open a shell in an agent's sandbox: your own ($SHELL) if it exists there, else bash or
sh. The exit status is the shell's own. The sandbox of a stopped agent is started,
without its program.`,
		Aliases:           []string{"sh"},
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
		Annotations:       map[string]string{passesStatus: "yes"},
	}
	tty.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		command := append([]string{"/bin/sh", "-c", shellScript, "sh"}, a.shells()...)
		return a.enter(cmd, args[0], tty, wire.ExecRequest{Command: command}, (*client.Client).Exec)
	}
	return cmd
}

// shells are the shells to try. A login that is switched off is no shell.
func (a *app) shells() []string {
	all := []string{"bash", "sh"}
	own := a.getenv("SHELL")
	switch filepath.Base(own) {
	case "nologin", "false", "true", ".":
		return all
	}
	if !filepath.IsAbs(own) {
		return all
	}
	return append([]string{own}, all...)
}

func (a *app) attachCmd() *cobra.Command {
	var tty ttyFlags
	cmd := &cobra.Command{
		Use:   "attach NAME",
		Short: "Attach to an agent's own program",
		Long: `Attach to the terminal of an agent's own program: see its output, type into it.
Ctrl-P Ctrl-Q detaches. The program continues then, and when polisctl ends in any
other way. If the program ends, polisctl ends with its exit status.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
		Annotations:       map[string]string{passesStatus: "yes"},
	}
	tty.add(cmd)
	cmd.Flags().BoolVarP(&tty.noInput, "no-stdin", "n", false, "only watch; send no input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		return a.enter(cmd, args[0], tty, wire.ExecRequest{}, (*client.Client).AttachTo)
	}
	return cmd
}

// wasStopped starts the sandbox of an agent that is stopped, and reports whether it did: a
// command of a person's needs the agent's files, and not its program.
func (a *app) wasStopped(ctx context.Context, c *client.Client, name string, refused error) bool {
	if refused == nil || api.CodeOf(refused) != api.CodeBadState {
		return false
	}
	g, err := c.Agent(ctx, name)
	if err != nil || g.Status != api.StatusStopped {
		return false
	}
	p := a.progress("starting the sandbox of agent " + name)
	defer p.done()
	_, err = c.BringUp(ctx, name)
	return err == nil
}

// frozenBy returns the reason why the processes of an agent get no signal; "" if it is not known that it is frozen.
func (a *app) frozenBy(ctx context.Context, name string) string {
	c := a.client()
	defer c.Close()
	g, err := c.Agent(ctx, name)
	if err != nil || g.Waiting == nil || g.Waiting.For != api.WaitingThaw {
		return ""
	}
	return fmt.Sprintf("agent %s is frozen, so that its command gets no signal; it is killed (%s; polisctl agents thaw %s)", name, g.Waiting.What, name)
}

// enter opens a session and runs it. A status other than 0 comes back as
// childStatus.
func (a *app) enter(cmd *cobra.Command, name string, tty ttyFlags, req wire.ExecRequest,
	open func(*client.Client, context.Context, string, wire.ExecRequest) (*client.Session, error),
) error {
	var err error
	if req.TTY, err = tty.decide(a); err != nil {
		return err
	}
	req.Stdin = !tty.noInput
	if req.TTY {
		req.Rows, req.Cols = terminalSize(a.stdout)
		if term := a.getenv("TERM"); term != "" && len(req.Command) > 0 {
			req.Env = append([]string{"TERM=" + term}, req.Env...)
		}
	}
	sigs, stop := catchSignals()
	defer stop()
	var remote *client.Session
	err = a.reach(cmd, func(ctx context.Context, c *client.Client) error {
		if err := inWorkspace(ctx, c, name, tty.workspace); err != nil {
			return err
		}
		remote, err = open(c, ctx, name, req)
		if len(req.Command) > 0 && a.wasStopped(ctx, c, name, err) {
			remote, err = open(c, ctx, name, req)
		}
		return err
	})
	if err != nil {
		return err
	}
	s := &session{a: a, remote: remote, tty: req.TTY, stdin: req.Stdin, attach: len(req.Command) == 0, sigs: sigs}
	s.frozen = func(ctx context.Context) string { return a.frozenBy(ctx, name) }
	code, err := s.run()
	switch {
	case err != nil:
		return err
	case code != 0:
		return childStatus(code)
	}
	return nil
}
