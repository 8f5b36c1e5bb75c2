package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// delegateFlags are those of polisctl delegate as typed.
type delegateFlags struct {
	base, workspace, role, memory, model string
	egress, hostPorts                    []string
	rules                                ruleFlags
	limits                               limitFlags
	wait, follow, detach                 bool
	commit, merge, force                 bool
}

func (a *app) delegateCmd() *cobra.Command {
	f := &delegateFlags{}
	cmd := &cobra.Command{
		Use:   "delegate BRANCH TASK... [OPTION]... [-- CMD...]",
		Short: "Give a task to a new agent, and get its result",
		Long: `Make a worker, an agent that exists for one task, on BRANCH, and give it the TASK.
Its name, which is the ID for polisctl workers, is derived from BRANCH. When the task has
ended, its result is shown: the agent's message, the size of its change, and the state
of its branch. The patrol or polisctl workers cleanup removes a worker that has ended;
its branch and its result stay.

On a terminal the worker's output is shown (--follow), and a line for each question
that it opens: polisctl approvals answers it. Without a terminal, the command returns when
the task is given (--detach), and polisctl workers wait waits for the result. With --wait
only the result is shown.

An agent can delegate, too, in its sandbox. Its worker has the agent's base type, role
and variables, and at most its rules and limits: --read, --write, --deny, --hide,
--egress, --host-port and the limits narrow them. Its memory, processes and disk are a
part of the agent's own, and are returned when the worker is removed: an equal
share, or the values of --memory, --pids and --disk. The worker starts at the target branch, on a
new BRANCH, which the agent merges into its own (git merge BRANCH); with --merge the
branch is merged into the target as the agent's own would be. [delegate] in polisd.toml
limits how many workers an agent has and how deeply they are nested. Workers of agents
cannot reach remote repositories.

The exit status with --follow or --wait is that of the task, as polisctl run has it: 0
if it ended well, else that of its program, or 1 if the task ended in another way,
without success.`,
		Example: `  polisctl delegate feat/oauth "implement the OAuth login" --base claude
  polisctl delegate fix/typo "correct the spelling in docs/" --write 'docs/**' --wait`,
		Args: func(cmd *cobra.Command, args []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 0 {
				n = len(args)
			}
			return takes(2, -1, "a BRANCH and a TASK")(cmd, args[:n])
		},
		ValidArgsFunction: completeWords(),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.base, "base", "b", "", "base `TYPE` of the worker (default custom if CMD is given, else as configured)")
	flags.StringVar(&f.role, "role", "", "`ROLE` of polisd.toml")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`WORKSPACE` to work in (default: that of the current directory, or the only one)")
	flags.StringVar(&f.model, "model", "", "the `MODEL` that the worker's program uses")
	flags.StringVarP(&f.memory, "memory", "m", "", "memory limit in `MB`, or as in 2GB")
	f.limits.register(cmd)
	f.rules.register(cmd)
	flags.StringSliceVar(&f.egress, "egress", nil, "let it reach `WHERE`, as for polisctl agents add")
	flags.StringSliceVar(&f.hostPorts, "host-port", nil, "let it reach `PORT` of the host's 127.0.0.1, as for polisctl agents add")
	flags.BoolVar(&f.commit, "commit", false, "commit the task's uncommitted changes, if it ends well (default as its role says)")
	flags.BoolVar(&f.merge, "merge", false, "in a sandbox: merge the worker's branch into the target if the task ends well, as the agent's own would be")
	flags.BoolVar(&f.wait, "wait", false, "wait for the result")
	flags.BoolVarP(&f.follow, "follow", "f", false, "show the output until the task has ended (default on a terminal)")
	flags.BoolVarP(&f.detach, "detach", "d", false, "return when the task is queued")
	flags.BoolVar(&f.force, "force", false, "add the worker even if the machine has no room for it")
	_ = cmd.RegisterFlagCompletionFunc("base", a.completeTypes) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := a.delegateRequest(cmd, f, args)
		if err != nil {
			return err
		}
		if f.follow && f.wait || f.detach && (f.follow || f.wait) {
			return usagef("only one of --follow, --wait and --detach can be used")
		}
		_, inside := a.insidePath()
		live := f.follow || !f.wait && !f.detach && isTerminal(a.stdout) && !a.json && !a.quiet
		if inside && f.follow {
			return usagef("--follow cannot be used in a sandbox").WithHint("--wait shows the result")
		}
		var w api.Worker
		err = a.callWorkers(cmd, longCall, func(ctx context.Context, c workerCalls) error {
			if !inside && req.Workspace == "" {
				cl := a.client()
				defer cl.Close()
				if req.Workspace, err = here(ctx, cl); err != nil {
					return err
				}
			}
			p := a.progress("making a worker for branch " + clean(req.Branch))
			defer p.done()
			w, err = c.Delegate(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		switch {
		case f.wait || live:
			return a.followWorker(cmd, w, live && !inside && !a.json)
		default:
			return a.show(view{json: w, names: []string{w.ID}, human: func(p *page) {
				p.line("worker %s has begun on branch %s; see polisctl workers wait %s", w.ID, w.Branch, w.ID)
			}})
		}
	}
	return cmd
}

func (a *app) delegateRequest(cmd *cobra.Command, f *delegateFlags, args []string) (api.DelegateRequest, error) {
	words, command := args, []string(nil)
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		words, command = args[:n], args[n:]
	}
	req := api.DelegateRequest{Type: api.WorkersDelegate, Branch: words[0], BaseType: f.base, AgentSpec: api.AgentSpec{Workspace: f.workspace, Role: f.role, Command: command, Force: f.force}, Model: f.model, Commit: f.commit, Merge: f.merge}
	_, inside := a.insidePath()
	if req.BaseType == "" && len(command) > 0 && !inside {
		req.BaseType = customType
	}
	var err error
	if req.Task, err = a.prompt(words[1:]); err != nil {
		return req, err
	}
	for _, w := range []struct {
		field, value string
		max          int
	}{{"BRANCH", req.Branch, maxBranch}, {"base", f.base, 64}, {"workspace", f.workspace, maxText}, {"role", f.role, 64}} {
		if w.value == "" && w.field != "BRANCH" {
			continue
		}
		if err := checkWord(w.field, w.value, w.max); err != nil {
			return req, err
		}
	}
	if err := checkCommand(command); err != nil {
		return req, err
	}
	if req.MemoryMB, err = parseMemory(f.memory); err != nil {
		return req, err
	}
	if req.Limits, _, err = f.limits.parse(); err != nil {
		return req, err
	}
	if req.Egress, err = egressWords(f.egress); err != nil {
		return req, err
	}
	if req.HostPorts, err = hostPorts(f.hostPorts); err != nil {
		return req, err
	}
	req.Policy, err = f.rules.policy()
	return req, err
}

// followWorker waits for a worker's result and shows it; with live also its output.
func (a *app) followWorker(cmd *cobra.Command, w api.Worker, live bool) error {
	return a.callWorkers(cmd, forever, func(ctx context.Context, c workerCalls) error {
		if live && w.Task != nil {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			cl := a.client()
			defer cl.Close()
			out := &taskOutput{}
			done := make(chan struct{})
			go func() { defer close(done); out.run(ctx, a, cl, *w.Task) }()
			defer func() { stop(); <-done }()
			defer func() {
				if w.Task != nil {
					out.finish(ctx, *w.Task)
				}
			}()
		}
		unask := a.showWorkersQuestions(ctx, []string{w.ID})
		defer unask()
		var err error
		if w, err = a.awaitWorker(ctx, c, w.ID, a.workerAsks(w.ID)); err != nil {
			return err
		}
		unask()
		if err := a.showWorker(w); err != nil {
			return err
		}
		return workerStatus(w)
	})
}

// showWorkersQuestions is showQuestions for workers, whose IDs are the names of agents. In a sandbox nobody answers questions.
func (a *app) showWorkersQuestions(ctx context.Context, ids []string) (stop func()) {
	if _, inside := a.insidePath(); inside {
		return func() {}
	}
	return a.showQuestions(ctx, ids)
}

// workerAsks reports what a worker waits for; showWorkersQuestions shows its questions to those who can answer them.
func (a *app) workerAsks(id string) func(api.Waiting) {
	return func(wait api.Waiting) {
		if a.quiet || a.json {
			return
		}
		_, inside := a.insidePath()
		switch {
		case wait.For == api.WaitingApproval && !inside:
		case wait.For == api.WaitingApproval:
			fmt.Fprintf(a.stderr, "worker %s asks: %s; polisctl approvals approve %s\n", id, clean(wait.What), clean(wait.ID))
		default:
			fmt.Fprintf(a.stderr, "worker %s waits for a lock on %s\n", id, clean(wait.Path))
		}
	}
}

// workerStatus is the exit status that a worker's task gives polisctl.
func workerStatus(w api.Worker) error {
	if w.Task == nil {
		return childStatus(exitFailure)
	}
	return taskStatus(*w.Task)
}

func (a *app) showWorker(w api.Worker) error {
	return a.show(view{json: w, names: []string{w.ID}, human: func(p *page) { workerPage(p, w) }})
}

// workerPage shows a worker and its result.
func workerPage(p *page, w api.Worker) {
	state := string(w.State)
	if w.Task != nil {
		state = w.Task.Result
	}
	p.line("worker %s on branch %s: %s", w.ID, w.Branch, state)
	if w.Parent != "" {
		p.line("  works for  %s", w.Parent)
	}
	if w.Removed {
		p.line("  agent      was removed; its branch stays")
	}
	if w.Waiting != nil {
		p.line("  waits for  %s: %s", w.Waiting.For, w.Waiting.What)
	}
	if u := w.Update; u != nil {
		p.line("  says       %s", strings.TrimSpace(u.Status+" "+u.Message))
	}
	if w.Task != nil && w.Task.State == api.TaskEnded {
		p.line("  task       %s", endLine(*w.Task))
	}
	if w.Summary != "" {
		p.line("")
		p.text("  " + strings.ReplaceAll(w.Summary, "\n", "\n  "))
	}
	if w.DiffStat != "" {
		p.line("")
		p.text(w.DiffStat)
	}
}
