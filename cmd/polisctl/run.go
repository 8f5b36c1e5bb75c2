package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// runFlags are those of polisctl run.
type runFlags struct {
	base, name, workspace, role, file  string
	model                              string
	follow, wait, detach, commit, goOn bool
	env                                envFlags
}

func (a *app) runTaskCmd() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [OPTION]... NAME PROMPT... | --base TYPE PROMPT...",
		Short: "Give an agent a task, and follow it",
		Long: `Give the agent NAME a task in words. If the agent does not exist, it is added, with
the base type of --base, or with the type called NAME. With --base and without
--name, the agent has the name of its type, and all words are the PROMPT. If the
agent works on another task, this one waits for its turn. An agent that is stopped or in
state Error is brought up first.

The words of PROMPT are joined by spaces; - reads it from standard input, --file
from a file. Words that start with '-' come after --.

On a terminal, run follows the task (--follow): it shows the output, and at the
end a line with the result. Ctrl-C asks whether to stop the task or to leave it
running. Without a terminal, run returns when the task is given (--detach).
A question of the agent (polisctl approvals) is shown, and one key answers it; where
standard input or error is no terminal, it is a line on standard error. With
--wait it shows only the last line, when the next task can begin. With --follow and
--wait the exit status is that of the task: that of its program, or 1 if the task
ended in another way, without success. It is also 1 if nothing is merged because all
that the task committed is on another branch than HEAD.`,
		Example: `  polisctl run claude "make the tests of package store pass"
  polisctl run --base codex --name fixer --file task.md
  polisctl run --wait claude - < task.md && git log -1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeAgents,
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.base, "base", "b", "", "base `TYPE` of an agent that does not exist yet, see polisctl agents types")
	flags.StringVar(&f.name, "name", "", "`NAME` of the agent: all words are the prompt")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`WORKSPACE` of an agent that does not exist yet (default: that of the current directory, or the only one)")
	flags.StringVar(&f.role, "role", "", "`ROLE` of an agent that does not exist yet")
	flags.StringVarP(&f.file, "file", "F", "", "read the prompt from `FILE`")
	flags.BoolVarP(&f.follow, "follow", "f", false, "show the output until the task has ended (default on a terminal)")
	flags.BoolVar(&f.wait, "wait", false, "wait for the result, and show no output")
	flags.BoolVarP(&f.detach, "detach", "d", false, "return when the task is queued")
	flags.StringVar(&f.model, "model", "", "the `MODEL` that the agent's program uses for this task")
	flags.BoolVar(&f.goOn, "continue", false, "continue the program's last session in this agent")
	flags.BoolVar(&f.commit, "commit", false, "commit the task's uncommitted changes, if it ends well (default as its role says)")
	f.env.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("base", a.completeTypes) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, prompt, err := a.runWords(f, args)
		if err != nil {
			return err
		}
		if (f.follow && f.wait) || (f.detach && (f.follow || f.wait)) {
			return usagef("only one of --follow, --wait and --detach can be used")
		}
		vars, err := f.env.parse()
		if err != nil {
			return err
		}
		var task api.Task
		err = a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			if err := a.ensureAgent(ctx, c, name, f); err != nil {
				return err
			}
			p := a.progress("starting the task")
			defer p.done()
			task, err = c.Run(ctx, name, api.RunRequest{Prompt: prompt, Queue: true, Model: f.model, Continue: f.goOn, Commit: f.commit, Env: vars})
			return err
		})
		if err != nil {
			return err
		}
		live := f.follow || !f.wait && !f.detach && isTerminal(a.stdout) && !a.json && !a.quiet
		if live || f.wait {
			return a.followTask(cmd, task, live && !a.json)
		}
		return a.show(view{json: task, names: []string{task.ID}, human: func(p *page) {
			if task.State == api.TaskQueued {
				p.line("%s", turnText(task))
				return
			}
			p.line("task %s has begun; see polisctl agents watch -f %s, polisctl tasks show %s", task.ID, task.Agent, task.ID)
		}})
	}
	return cmd
}

// runWords takes the arguments apart.
func (a *app) runWords(f *runFlags, args []string) (name, prompt string, err error) {
	name = f.name
	if name == "" && f.base != "" {
		name = f.base
	}
	if name == "" {
		if len(args) == 0 {
			return "", "", usagef("polisctl run needs the NAME of an agent, or --base TYPE, and a PROMPT")
		}
		name, args = args[0], args[1:]
	}
	if err := checkAgents(name); err != nil {
		return "", "", err
	}
	if f.base != "" {
		if err := checkWord("base", f.base, 64); err != nil {
			return "", "", err
		}
	}
	if err := checkWorkspace(f.workspace); err != nil {
		return "", "", err
	}
	switch {
	case f.file != "" && len(args) > 0:
		return "", "", usagef("the prompt is given by --file and by words, %q: only one can be used", clean(api.Shorten(args[0], 40)))
	case f.file != "":
		prompt, err = readPrompt(f.file)
	case len(args) == 0:
		return "", "", usagef("polisctl run needs a PROMPT for agent %s: words, - or --file", name)
	default:
		prompt, err = a.prompt(args)
	}
	return name, prompt, err
}

func readPrompt(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", usagef("read the prompt: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxPrompt+1))
	if err != nil {
		return "", usagef("read the prompt: %w", err)
	}
	prompt := strings.TrimRight(string(b), "\n")
	if strings.TrimSpace(prompt) == "" {
		return "", usagef("file %q is empty: it must say what to do", clean(path))
	}
	return prompt, checkText("prompt", prompt, maxPrompt-1)
}

// ensureAgent adds the agent if it is not there.
func (a *app) ensureAgent(ctx context.Context, c *client.Client, name string, f *runFlags) error {
	g, err := c.Agent(ctx, name)
	switch {
	case err == nil && f.base != "" && g.BaseType != f.base:
		return api.Errorf(api.CodeAgentExists, "agent %s is there, and of type %s", name, g.BaseType).
			WithHint("leave --base out, or choose another agent with --name")
	case err == nil || api.CodeOf(err) != api.CodeAgentNotFound:
		return err
	}
	base := f.base
	if base == "" {
		types, terr := c.Types(ctx)
		if terr != nil {
			return terr
		}
		for _, t := range types {
			if t.Name == name && t.Name != customType {
				base = name
			}
		}
	}
	if base == "" {
		return api.Errorf(api.CodeAgentNotFound, "there is no agent %s, and no base type of that name", name).
			WithHint("polisctl run --base TYPE --name %s adds it; polisctl agents list and polisctl agents types show what there is", name)
	}
	req := api.AddRequest{Name: name, BaseType: base, AgentSpec: api.AgentSpec{Workspace: f.workspace, Role: f.role}}
	if req.Workspace == "" {
		if req.Workspace, err = here(ctx, c); err != nil {
			return err
		}
	}
	p := a.progress("adding agent " + name)
	defer p.done()
	_, err = c.Add(ctx, req, p.step)
	p.done()
	if api.CodeOf(err) == api.CodeAgentExists && err != nil {
		return nil // another polisctl was faster
	}
	if err == nil && !a.quiet && !a.json {
		fmt.Fprintf(a.stderr, "agent %s was added, of type %s\n", name, base)
	}
	return err
}
