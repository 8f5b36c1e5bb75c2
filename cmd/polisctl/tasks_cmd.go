package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

const (
	usualTasks  = 50
	maxTaskList = 1000
	// maxStat bounds the diff stat that is shown, in bytes.
	maxStat = 64 << 10
)

func (a *app) tasksCmd() *cobra.Command {
	var workspace string
	var limit int
	var watch bool
	cmd := &cobra.Command{
		Use:   "tasks [NAME] [-n LIMIT] [--watch]",
		Short: "List tasks, and show, cancel and retry one",
		Long: `List the last tasks of all agents, or of the agent NAME, with their results.

A task ends once: when its program ends, when its agent reports it (polisctl done)
or when a person ends it. Its result is then merged, conflict, check failed,
uncommitted, nothing to merge, failed, killed, stopped, cancelled, lost, or waiting
while its branch waits to be merged.

A task is lost if its program ended together with polisd, the machine or its sandbox.
Tasks that were queued behind it begin when it is retried (polisctl tasks retry) or
dismissed (polisctl tasks cancel); on_restart of [tasks] in polisd.toml can have polisd
retry it. The list says what queued tasks wait for.`,
		Args:              takes(0, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only tasks of agents of this `WORKSPACE`")
	cmd.Flags().IntVarP(&limit, "limit", "n", usualTasks, "show at most this many tasks, the newest ones")
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if limit < 1 || limit > maxTaskList {
			return usagef("limit %d is not valid: a whole number from 1 to %d", limit, maxTaskList)
		}
		if len(args) == 1 {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			var tasks []api.Task
			var err error
			if len(args) == 1 {
				tasks, err = c.Tasks(ctx, args[0])
				tasks = tasks[max(0, len(tasks)-limit):]
			} else {
				tasks, err = c.AllTasks(ctx, workspace, limit)
			}
			if err != nil {
				return view{}, err
			}
			var ids []string
			for _, t := range tasks {
				ids = append(ids, t.ID)
			}
			return view{json: map[string]any{"tasks": list(tasks)}, names: ids, human: func(p *page) { tasksPage(p, tasks) }}, nil
		})
	}
	cmd.AddCommand(a.taskShowCmd(), a.taskCancelCmd(), a.taskRetryCmd())
	return cmd
}

func (a *app) taskShowCmd() *cobra.Command {
	var output, raw, patch bool
	cmd := &cobra.Command{
		Use:   "show ID [--output [--raw]|--diff]",
		Short: "Show a task",
		Long: `Show a task: the prompt, the result, the commits, the refusals, the resources that it
used and its last steps. With --output print the kept output of its program, with
--diff its commits as a patch. If polis reads the program's machine-readable output,
--output prints the steps, and with --raw the lines of the program.`,
		Args: takes(1, 1, "the ID of a task"), ValidArgsFunction: a.completeTasks,
	}
	cmd.Flags().BoolVarP(&output, "output", "o", false, "print the output")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes of the output as they are, and lines that polis reads")
	cmd.Flags().BoolVar(&patch, "diff", false, "print the patch")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if output && patch || raw && !output {
			return usagef("--output and --diff cannot be used together, and --raw needs --output")
		}
		if err := checkText("ID", args[0], maxText); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			open := func(context.Context, string) (io.ReadCloser, error) { return nil, nil }
			switch {
			case raw:
				open = c.TaskRaw
			case output:
				open = c.TaskOutput
			case patch:
				open = func(ctx context.Context, id string) (io.ReadCloser, error) { return c.TaskDiff(ctx, id, false) }
			}
			body, err := open(ctx, args[0])
			if err != nil {
				return err
			}
			if body != nil {
				defer body.Close()
				if raw {
					_, err := io.Copy(onlyWriter{a}, body)
					return err
				}
				return a.copyOut(body)
			}
			t, err := c.Task(ctx, args[0], 0)
			if err != nil {
				return err
			}
			return a.show(view{json: t, names: []string{t.ID}, human: func(p *page) { taskPage(p, t, diffStat(ctx, c, t)) }})
		})
	}
	return cmd
}

// diffStat is how much a task has committed; empty if that cannot be known.
func diffStat(ctx context.Context, c *client.Client, t api.Task) string {
	if t.Commits == 0 {
		return ""
	}
	body, err := c.TaskDiff(ctx, t.ID, true)
	if err != nil {
		return ""
	}
	defer body.Close()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(body, maxStat)); err != nil {
		return ""
	}
	return strings.TrimRight(buf.String(), "\n")
}

func taskPage(p *page, t api.Task, stat string) {
	p.line("task %s: %s", t.ID, t.Result)
	field := func(name, format string, args ...any) { p.line("  %-12s"+format, append([]any{name}, args...)...) }
	field("given", "%s", t.Time.Local().Format(time.DateTime))
	if t.RetryOf != "" {
		field("retry of", "%s", t.RetryOf)
	}
	if t.Waits != nil {
		field("waits", "%s", t.Waits.Text())
	}
	if t.Interrupted != "" {
		field("lost", "polisctl tasks retry %[1]s does it again, polisctl tasks cancel %[1]s dismisses it", t.ID)
	}
	if t.Began != nil {
		field("began", "%s", t.Began.Local().Format(time.DateTime))
	}
	if t.Ended != nil {
		field("ended", "%s, after %s, by %s", t.Ended.Local().Format(time.DateTime), span(time.Duration(t.Seconds*float64(time.Second))), string(t.EndedBy))
	}
	if t.ExitCode != nil {
		field("exit", "%d", *t.ExitCode)
	}
	if t.Message != "" {
		field("message", "%s", t.Message)
	}
	if t.State == api.TaskEnded {
		field("commits", "%d", t.Commits)
	}
	if t.NoCheckpoint != "" {
		field("checkpoint", "none before it: %s", t.NoCheckpoint)
	}
	if t.Uncommitted > 0 {
		field("uncommitted", "%s", api.Count(t.Uncommitted, "file"))
	}
	if len(t.Paths) > 0 {
		field("paths", "%s", strings.Join(t.Paths, ", "))
	}
	for _, b := range t.Elsewhere {
		field("elsewhere", "%s", b.Text())
	}
	if t.Log != "" {
		field("check log", "%s", t.Log)
	}
	if t.CheckOutput != "" {
		fmt.Fprint(p.w, lastMarked(t.CheckOutput))
		field("all of it", "polisctl queue log %s --check %d", t.Agent, t.Check)
	}
	if u := t.Use; u != nil {
		field("refused", "%s, %s, %s", api.Count(int(u.ReadsDenied), "read"), api.Count(int(u.WritesDenied), "write"), api.Count(int(u.LockConflicts), "lock"))
		if u.QuestionsDenied > 0 {
			field("denied", "%s", api.Count(int(u.QuestionsDenied), "question"))
		}
		field("waited", "%s for locks", (time.Duration(u.WaitedMS) * time.Millisecond).String())
		if u.MemoryPeakBytes > 0 {
			most := ""
			if u.MemoryPeakEarlier {
				most = "at most "
			}
			field("memory", "%s%s at its peak%s", most, size(u.MemoryPeakBytes), stalledText(u.MemoryStalledMS))
		}
	}
	if u := t.Models; u != nil {
		field("models", "%s, %s tokens in, %s out, %s cached", api.Count(int(u.Requests), "request"), figure(u.InputTokens), figure(u.OutputTokens), figure(u.CacheReadTokens+u.CacheWriteTokens))
		field("models cost", "%s", modeltext.Cost(u))
		if notes := usageNotes(*u); notes != "" {
			field("models note", "%s", notes)
		}
	}
	if r := t.Report; r != nil {
		if r.OwnRefusals > 0 {
			field("own rules", "refused %s: %s", api.Count(r.OwnRefusals, "call"), strings.Join(r.OwnRefused, "; "))
		}
		if r.Error != "" {
			field("error", "%s", r.Error)
		}
		if r.InputTokens+r.OutputTokens > 0 {
			field("tokens", "%d in, %d out", r.InputTokens, r.OutputTokens)
		}
		if r.CostUSD > 0 {
			field("cost", "$%.4f, as its program says", r.CostUSD)
		}
	}
	for _, w := range t.Refused {
		p.line("  %s %s %s: %s (%s)", w.Time.Local().Format(time.TimeOnly), w.Op, w.Path, w.Name(), w.Errno)
		if w.By != "" {
			p.line("    %s", api.DeniedText(who(w.By), w.Path, w.Reason))
		}
	}
	p.line("")
	p.text("  " + strings.ReplaceAll(prose(t.Prompt), "\n", "\n  "))
	stepsText(p, t)
	if stat != "" {
		p.line("")
		p.text(stat)
	}
}

// stalledText is how long a task waited for memory, if that was long enough to be noticed.
func stalledText(ms int64) string {
	if ms < 100 {
		return ""
	}
	return ", waited " + (time.Duration(ms) * time.Millisecond).Round(100*time.Millisecond).String() + " for memory"
}
