package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) whoCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "who COMMAND",
		Short: "Show who wrote or read a file",
		Long: `Show who wrote or read a file, or what is below a directory: the agent, its process and
task, from receipts of opens (audit = "full" of the agent), and who wrote it also from
commits, from checkpoints and from files of agents that are in no commit yet.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.whoOpCmd("wrote", "wrote PATH[:LINE] [-w WORKSPACE] [--agent NAME] [--at CHECKPOINT] [--since 1h]", "Show who wrote a file, or one line of it", true),
		a.whoOpCmd("read", "read PATH [-w WORKSPACE] [--agent NAME] [--since 1h]", "Show who opened a file for reading", false))
	return cmd
}

func (a *app) whoOpCmd(verb, use, short string, write bool) *cobra.Command {
	req := api.WhoRequest{Write: write}
	var since time.Duration
	cmd := &cobra.Command{Use: use, Short: short, Args: takes(1, 1, "a PATH below the worktree")}
	cmd.Long = short + `: agent, process, command line, task and time. An open for reading
is recorded only of agents with audit = "full"; the answer says which agents have it not.`
	if write {
		cmd.Long = short + `: agent, process, command line, task and time. Without
audit = "full" of an agent its process is not known, and only commits and what is in
no commit yet are.

Checkpoints have what was written and is in no commit: the time is that of the first
checkpoint with it.

PATH:LINE is a line of the file on the target branch, or with --agent of the file of an
agent as it is now, or with --at of the file in a checkpoint (polisctl timeline). A PATH that ends in a colon and a number needs another colon at its end.`
	}
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "in this `WORKSPACE`")
	cmd.Flags().StringVar(&req.Agent, "agent", "", "only by this agent (`NAME`)")
	if write {
		cmd.Flags().StringVar(&req.Checkpoint, "at", "", "LINE is that of the file in this checkpoint (`ID`)")
	}
	cmd.Flags().DurationVar(&since, "since", 0, "only in the last `DURATION`, such as 1h")
	cmd.Flags().IntVarP(&req.Limit, "lines", "n", 100, "how many, at most 10000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		req.Path, req.Line = args[0], 0
		if write {
			req.Path, req.Line = pathLine(args[0])
		}
		if req.Path, err = treePath(req.Path); err != nil {
			return err
		}
		if err := checkProvenance(req.Workspace, req.Agent); err != nil {
			return err
		}
		if req.Checkpoint != "" {
			if req.Line == 0 {
				return usagef("--at needs PATH:LINE")
			}
			if err := checkText("--at", req.Checkpoint, maxText); err != nil {
				return err
			}
		}
		if req.Limit < 1 || since < 0 {
			return usagef("--lines and --since must be above 0")
		}
		if req.Since = (time.Time{}); since > 0 {
			req.Since = a.now().Add(-since)
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			w, err := c.Who(ctx, req)
			if err != nil {
				return err
			}
			w.Uses = list(w.Uses)
			return a.show(view{json: w, human: func(p *page) { whoPage(p, verb, w) }})
		})
	}
	return cmd
}

// pathLine splits PATH:LINE; a path that ends in a colon has no line.
func pathLine(arg string) (string, int) {
	i := strings.LastIndexByte(arg, ':')
	if i <= 0 {
		return arg, 0
	}
	if i == len(arg)-1 {
		return arg[:i], 0
	}
	n, err := strconv.Atoi(arg[i+1:])
	if err != nil || n < 1 || arg[i+1] == '+' {
		return arg, 0
	}
	return arg[:i], n
}

// treePath checks a path that is relative to a worktree.
func treePath(arg string) (string, error) {
	p := path.Clean(arg)
	if arg == "" || len(p) > 4096 || path.IsAbs(p) || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.Contains(p, "\x00") {
		return "", usagef("%q is not a path below the worktree, such as src/main.go", api.Shorten(arg, 100))
	}
	return p, nil
}

func checkProvenance(workspace, agent string) error {
	if err := checkWorkspace(workspace); err != nil || agent == "" {
		return err
	}
	return checkAgents(agent)
}

func whoPage(p *page, verb string, w api.Who) {
	if w.Line != nil {
		p.line("line %d: %s", w.Line.Line, api.Shorten(w.Line.Text, 120))
	}
	rows := make([][]cell, 0, len(w.Uses))
	for _, u := range w.Uses {
		rows = append(rows, []cell{{text: u.Time.Local().Format("2006-01-02 15:04:05")}, {text: cmp.Or(u.Agent, "-")}, {text: cmp.Or(u.Task, "-")}, {text: u.Op}, {text: useText(u)}})
	}
	p.table("nobody "+verb+" it, as far as it is recorded", []string{"TIME", "AGENT", "TASK", "WHAT", "BY"}, rows)
	for _, n := range w.Notes {
		p.line("%s", n)
	}
}

// useText describes the process or the commit of a use.
func useText(u api.WhoUse) string {
	switch {
	case u.Commit != nil:
		return fmt.Sprintf("commit %s by %s: %s", short(u.Commit.ID), api.Shorten(u.Commit.Author, 40), api.Shorten(u.Commit.Summary, 60))
	case u.Checkpoint != nil:
		text := "in checkpoint " + u.Checkpoint.ID
		if u.Op == "removed" {
			text = "not in checkpoint " + u.Checkpoint.ID
		}
		if u.Checkpoint.After != nil {
			text += ", after " + u.Checkpoint.After.Local().Format("2006-01-02 15:04:05")
		}
		return text
	case u.Source == api.UseFiles:
		return "in no commit yet"
	}
	text := u.Path
	if u.To != "" {
		text += " -> " + u.To
	}
	if u.PID != 0 {
		text += fmt.Sprintf(" by %s (pid %d): %s", cmp.Or(path.Base(u.Program), "?"), u.PID, api.Shorten(u.Command, 80))
	}
	if u.Count > 1 {
		text += fmt.Sprintf(" (%d times)", u.Count)
	}
	return text
}

func (a *app) blameCmd() *cobra.Command {
	var workspace, agent string
	cmd := &cobra.Command{
		Use:   "blame PATH [-w WORKSPACE] [--agent NAME]",
		Short: "Show which agent, task and commit each line of a file is of",
		Long: `Show which agent, task and commit each line of a file is of: of the file on the target
branch, or with --agent of the file of an agent as it is now, with the lines that are
in no commit yet. A commit without an agent is of a person, or its receipt is gone.`,
		Args: takes(1, 1, "a PATH below the worktree"),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "in this `WORKSPACE`")
	cmd.Flags().StringVar(&agent, "agent", "", "the file of this agent (`NAME`)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := treePath(args[0])
		if err != nil {
			return err
		}
		if err := checkProvenance(workspace, agent); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			b, err := c.Blame(ctx, workspace, agent, file)
			if err != nil {
				return err
			}
			b.Lines = list(b.Lines)
			return a.show(view{json: b, human: func(p *page) { blamePage(p, b) }})
		})
	}
	return cmd
}

func blamePage(p *page, b api.Blame) {
	rows := make([][]cell, 0, len(b.Lines))
	for _, l := range b.Lines {
		c, ok := b.Commits[l.Commit]
		who, task, at, id := c.Agent, strings.Join(c.Tasks, ","), c.Time.Local().Format("2006-01-02 15:04"), short(c.ID)
		if !ok {
			who, at, id = b.Agent, "now", "not committed"
		}
		if who == "" {
			who = "(" + api.Shorten(c.Author, 30) + ")"
		}
		rows = append(rows, []cell{{text: id}, {text: who}, {text: cmp.Or(api.Shorten(task, 40), "-")}, {text: at}, {text: fmt.Sprint(l.Line)}, {text: strings.ReplaceAll(l.Text, "\t", "    ")}})
	}
	p.table("the file is empty", []string{"COMMIT", "AGENT", "TASK", "TIME", "LINE", "TEXT"}, rows)
}
