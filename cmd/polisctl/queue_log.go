package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// outputMark begins each line that is output of a check: it cannot be taken for a line of polis.
const outputMark = "  | "

func (a *app) queueLogCmd() *cobra.Command {
	var req api.CheckLogRequest
	cmd := &cobra.Command{
		Use:   "log AGENT [--check N] [-n LINES]",
		Short: "Print what the check of an agent's branch printed",
		Long: `Print what the check of an agent's branch printed: that of its last check, or with
--check that of an earlier one. The column CHECK of polisctl queue has the numbers.
Each line of the output begins with "  | ", and what a terminal would act on is
escaped. With --json, the text is at most the last 256 KiB.

A workspace keeps the output of its last 50 checks, also of agents that were removed.`,
		Example: `  polisctl queue log claude
  polisctl queue log claude --check 2 -n 100`,
		Args:              takes(1, 1, "the name of an AGENT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().IntVar(&req.Check, "check", 1, "the `N`th last check of the agent")
	cmd.Flags().IntVarP(&req.Lines, "lines", "n", 0, "only so many of the last `LINES`, at most 10000")
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of an agent that was removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(checkAgents(args[0]), checkWorkspace(req.Workspace)); err != nil {
			return err
		}
		if req.Check < 1 {
			return usagef("check %d is not valid: a whole number from 1, which is the last check", req.Check)
		}
		if cmd.Flags().Changed("lines") && (req.Lines < 1 || req.Lines > api.MaxCheckLines) {
			return usagef("lines %d is not valid: a whole number from 1 to %d", req.Lines, api.MaxCheckLines)
		}
		req.Agent = args[0]
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error { return a.showCheckLog(ctx, c, req) })
	}
	return cmd
}

// showCheckLog prints the end of the output if that is wanted, and else all of it.
func (a *app) showCheckLog(ctx context.Context, c *client.Client, req api.CheckLogRequest) error {
	l, err := c.CheckLog(ctx, req)
	if err != nil {
		return err
	}
	err = a.show(view{json: l, names: []string{l.Log}, human: func(p *page) {
		ended := "passed"
		if l.Code != "" {
			ended = l.Message
		}
		p.line("check %d of %d of agent %s, request %s: %s", l.Check, l.Checks, l.Agent, l.ID, ended)
		if l.At != nil {
			p.line("  ended    %s ago", p.ago(*l.At))
		}
		p.fields(9)("command", firstLine(l.Command, 200))
		p.fields(9)("log", l.Log)
		if l.Bytes == 0 {
			p.line("  it printed nothing")
		}
		if req.Lines > 0 && l.Truncated {
			p.line("  the last lines; without -n all of it is printed")
		}
	}})
	switch {
	case err != nil || a.json || a.quiet:
		return err
	case req.Lines > 0:
		return copyMarked(onlyWriter{a}, strings.NewReader(l.Text))
	}
	body, err := c.CheckOutput(ctx, api.CheckLogRequest{Agent: l.Agent, Workspace: l.Workspace, ID: l.ID})
	if err != nil {
		return err
	}
	defer body.Close()
	return copyMarked(onlyWriter{a}, body)
}

// copyMarked copies output of a check, a marked line for each of its lines. A terminal interprets nothing of it, so that
// no sequence hides what comes after it.
func copyMarked(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	begun := false // a line
	for {
		piece, err := in.ReadSlice('\n')
		text := ""
		if len(piece) > 0 && !begun {
			text = outputMark
		}
		if len(piece) > 0 {
			line, ends := bytes.CutSuffix(piece, []byte("\n"))
			text += cleanText(string(line))
			if begun = !ends; ends {
				text += "\n"
			}
		}
		if errors.Is(err, io.EOF) && begun {
			text += "\n"
		}
		if _, werr := io.WriteString(w, text); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// lastMarked are the last lines of output, marked.
func lastMarked(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-api.CheckTailLines):]
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(outputMark + cleanText(line) + "\n")
	}
	return b.String()
}
