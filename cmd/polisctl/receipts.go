package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/escape"
)

func (a *app) receiptsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipts COMMAND",
		Short: "Show, verify, export and replay the receipts of a workspace",
		Long: `Show, verify, export and replay the receipts of a workspace.

Receipts are an append-only record of what happened to agents: created, changed and
removed, leases and refusals, approvals, snapshots, refs and merges. Each entry
contains the hash of the one before, so that a change is found.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.receiptsShowCmd(), a.receiptsVerifyCmd(), a.receiptsExportCmd(), a.receiptsReplayCmd())
	return cmd
}

func (a *app) receiptsShowCmd() *cobra.Command {
	var req api.ReceiptsRequest
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "show [AGENT] [-w WORKSPACE] [--type TYPE] [--since 1h] [--lines N]",
		Short: "Show the last receipts, oldest first",
		Long: `Show the last receipts, oldest first: of the workspace, or those about AGENT. A TYPE
that ends in ":" stands for all types that begin so.`,
		Args: takes(0, 1, "at most the NAME of an agent"), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "of this `WORKSPACE`")
	cmd.Flags().StringVar(&req.Type, "type", "", "only receipts of this `TYPE`")
	cmd.Flags().DurationVar(&since, "since", 0, "only those of the last `DURATION`, such as 1h")
	cmd.Flags().IntVarP(&req.Limit, "lines", "n", 100, "how many, at most 10000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkWorkspace(req.Workspace); err != nil {
			return err
		}
		if req.Limit < 1 || since < 0 {
			return usagef("--lines and --since must be above 0")
		}
		if len(args) == 1 {
			req.Agent = args[0]
			if err := checkAgents(req.Agent); err != nil {
				return err
			}
		}
		if since > 0 {
			req.Since = a.now().Add(-since)
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			r, err := c.Receipts(ctx, req)
			if err != nil {
				return err
			}
			r.Receipts = list(r.Receipts)
			err = a.show(view{json: r, human: func(p *page) { receiptRows(p, r) }})
			if err == nil && r.Broken != nil {
				return brokenReceipt(r.Workspace, r.Broken)
			}
			return err
		})
	}
	return cmd
}

func receiptRows(p *page, r api.Receipts) {
	rows := make([][]cell, 0, len(r.Receipts))
	for _, x := range r.Receipts {
		text := x.Message
		if n := fmt.Sprintf("%d times", x.Count); x.Count > 1 && !strings.Contains(text, n) {
			text += " (" + n + ")"
		}
		rows = append(rows, []cell{{text: receiptID(x.Log, x.Seq)}, {text: x.Time.Local().Format("2006-01-02 15:04:05")}, {text: x.Type}, {text: api.Shorten(text, 120)}})
	}
	p.table("no receipts", []string{"ENTRY", "TIME", "TYPE", "WHAT"}, rows)
}

// receiptID names an entry: its number, after the agent if it is in the agent's log.
func receiptID(log string, seq uint64) string {
	if log == "" {
		return fmt.Sprint(seq)
	}
	return fmt.Sprintf("%s:%d", log, seq)
}

func brokenReceipt(workspace string, b *api.BrokenReceipt) error {
	return api.Errorf(api.CodeReceiptsBroken, "receipts of workspace %s: entry %s: %s; compare the log with an export from before", workspace, receiptID(b.Log, b.Seq), b.Why)
}

func (a *app) receiptsVerifyCmd() *cobra.Command {
	var head string
	cmd := &cobra.Command{
		Use:   "verify [WORKSPACE] [--head HASH]",
		Short: "Compare all receipts with their hashes, and name the first broken entry",
		Long: `Compare all receipts of a workspace with their hashes, and name the first entry that
was changed, removed or inserted. The exit status is 1 if there is one.

A process that can write the whole log can also compute all hashes again. Note the head
that this command prints, elsewhere: with --head HASH that entry must be there.`,
		Args: takes(0, 1, "at most the NAME of a workspace"),
	}
	cmd.Flags().StringVar(&head, "head", "", "the `HASH` of an entry of the workspace's log that must be there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ws, err := workspaceArg(args)
		if err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			v, err := c.VerifyReceipts(ctx, ws, head)
			if err != nil {
				return err
			}
			err = a.show(view{json: v, human: func(p *page) {
				rows := make([][]cell, 0, len(v.Logs))
				for _, l := range v.Logs {
					state := "intact"
					if l.Broken != nil {
						state = "broken at " + fmt.Sprint(l.Broken.Seq)
					}
					name := l.Log
					if name == "" {
						name = "(workspace)"
					}
					rows = append(rows, []cell{{text: name}, {text: fmt.Sprint(l.Entries)}, {text: fmt.Sprint(l.Last)}, {text: state}, {text: l.Head}})
				}
				p.table("no receipts", []string{"LOG", "ENTRIES", "LAST", "STATE", "HEAD"}, rows)
				if v.Fault != "" {
					p.line("receipts cannot be written now: %s", v.Fault)
				}
			}})
			if err == nil && v.Broken != nil {
				return brokenReceipt(v.Workspace, v.Broken)
			}
			return err
		})
	}
	return cmd
}

func workspaceArg(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], checkWorkspace(args[0])
}

func (a *app) receiptsExportCmd() *cobra.Command {
	var format string
	var entry uint64
	cmd := &cobra.Command{
		Use:   "export [WORKSPACE] [--format jsonl|in-toto] [--merge ENTRY]",
		Short: "Print all receipts of a workspace, or the provenance of its merges",
		Long: `Print all receipts of a workspace, one JSON object a line. "text" is what is stored:
"hash" is the SHA-256 of "prev", a newline and "text".

With --format in-toto, print one in-toto statement a line for each merge, with a SLSA
provenance: the agent, its rules and tasks, the commits that were merged, what the agent
read (with audit = "full"), the models it used, and the files of the result. --merge
selects the merge with this number in receipts show. The same merge gives the same bytes.`,
		Example: `  polisctl receipts export > receipts.jsonl
  polisctl receipts export --format in-toto --merge 17`,
		Args: takes(0, 1, "at most the NAME of a workspace"),
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "`FORMAT`: jsonl or in-toto")
	cmd.Flags().Uint64Var(&entry, "merge", 0, "with in-toto: only the merge that is `ENTRY` of the log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ws, err := workspaceArg(args)
		if err != nil {
			return err
		}
		switch one := cmd.Flags().Changed("merge"); {
		case format != "jsonl" && format != "in-toto":
			return usagef("--format %q is neither jsonl nor in-toto", format)
		case one && (format == "jsonl" || entry == 0):
			return usagef("--merge needs --format in-toto, and a number above 0")
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			export := c.ExportReceipts
			if format == "in-toto" {
				export = func(ctx context.Context, ws string) (io.ReadCloser, error) { return c.Provenance(ctx, ws, entry) }
			}
			r, err := export(ctx, ws)
			if err != nil {
				return err
			}
			defer r.Close()
			out := io.Writer(a.stdout)
			if isTerminal(a.stdout) { // elsewhere the bytes count: they can be signed
				out = escape.JSONLines(out)
			}
			if _, err := io.Copy(out, r); err != nil {
				return api.Errorf(api.CodeReceiptsBroken, "the export was cut short (polisctl receipts verify names the first broken entry): %w", err)
			}
			return nil
		})
	}
	return cmd
}
