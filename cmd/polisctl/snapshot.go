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
)

const (
	maxSnapshotID   = 64
	maxSnapshotNote = 500
)

func (a *app) snapshotCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot COMMAND",
		Short: "Make, compare, verify and restore snapshots of agents' files",
		Long: `Make, compare, verify and restore snapshots of agents' files.

A snapshot is the state of an agent's files at one moment, committed or not. Its
content hash is the SHA-256 of the lines "path:sha256" of all files, sorted: two
snapshots of one state are equal on every machine. Contents are stored once, however
many snapshots and agents have them.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.snapshotCreateCmd(), a.snapshotListCmd(), a.snapshotShowCmd(), a.snapshotDiffCmd(), a.snapshotVerifyCmd(), a.snapshotRestoreCmd(), a.snapshotMountCmd(), a.snapshotUmountCmd(), a.snapshotRmCmd())
	return cmd
}

func checkSnapshots(ids ...string) error {
	for _, id := range ids {
		if err := checkWord("snapshot", id, maxSnapshotID); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) completeSnapshots(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Snapshots(ctx, "", "")
		return snapshotIDs(all), err
	})
}

func snapshotIDs(all []api.Snapshot) []string {
	ids := make([]string, 0, len(all))
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

func (a *app) snapshotCreateCmd() *cobra.Command {
	var req api.SnapshotRequest
	var all, declared bool
	cmd := &cobra.Command{
		Use:   "create NAME [--all|--declared] [--note TEXT]",
		Short: "Make a snapshot of an agent's files",
		Long: `Make a snapshot of the files of agent NAME, and print its ID. It has every file
that git does not ignore, committed or not, with modes, links, directories and
extended attributes of users. With --all it has the ignored files, too; with
--declared it has the files that the agent's rules let it write.

The processes of NAME are frozen while its files are read, and then continue. Pipes,
sockets and devices are not saved, nor are commits: git has those.`,
		Example: `  polisctl snapshot create claude --note "before the rewrite"`,
		Args:    takes(1, 1, "the NAME of an agent"), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&all, "all", false, "save ignored files, too")
	cmd.Flags().BoolVar(&declared, "declared", false, "save only what the agent's rules let it write")
	cmd.Flags().StringVar(&req.Note, "note", "", "a `TEXT` to find it again")
	cmd.MarkFlagsMutuallyExclusive("all", "declared")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		if err := checkText("note", req.Note, maxSnapshotNote); err != nil && req.Note != "" {
			return err
		}
		switch {
		case all:
			req.Covers = api.SnapshotAll
		case declared:
			req.Covers = api.SnapshotDeclared
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("reading the files of agent " + args[0])
			defer p.done()
			s, err := c.CreateSnapshot(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			return a.show(snapshotView(s))
		})
	}
	return cmd
}

func snapshotView(s api.Snapshot) view {
	return view{json: s, names: []string{s.ID}, human: func(p *page) {
		p.line("snapshot %s of agent %s", s.ID, s.Agent)
		f := p.fields(10)
		f("time", s.Time.Local().Format(time.DateTime))
		f("note", s.Note)
		f("covers", s.Covers)
		f("files", fmt.Sprintf("%d, %d KiB; %s, %s", s.Files, s.Bytes>>10, api.Count(s.Links, "link"), countDirs(s.Dirs)))
		f("content", s.Hash)
		f("metadata", s.Metadata)
		f("commit", s.Commit)
		f("mounted", s.MountedAt)
		f("inside", s.MountedInside)
		f("ignored", strings.Join(s.Ignored, " "))
		if s.LeftOut > 0 {
			p.warn("%d pipes, sockets or devices are not in it", s.LeftOut)
		}
	}}
}

func countDirs(n int) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}

func (a *app) snapshotListCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:     "list [NAME] [-w WORKSPACE]",
		Aliases: []string{"ls"},
		Short:   "List snapshots, oldest first",
		Args:    takes(0, 1, "at most the NAME of an agent"), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only snapshots in this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		agent := ""
		if len(args) == 1 {
			agent = args[0]
			if err := checkAgents(agent); err != nil {
				return err
			}
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			all, err := c.Snapshots(ctx, workspace, agent)
			if err != nil {
				return err
			}
			return a.show(view{json: map[string]any{"snapshots": list(all)}, names: snapshotIDs(all), human: func(p *page) {
				rows := make([][]cell, 0, len(all))
				for _, s := range all {
					rows = append(rows, []cell{{text: s.ID}, {text: s.Agent}, {text: p.ago(s.Time)}, {text: s.Covers}, {text: fmt.Sprint(s.Files)}, {text: fmt.Sprintf("%d KiB", s.Bytes>>10)}, {text: short(s.Hash)}, {text: api.Shorten(s.Note, 50)}})
				}
				p.table("no snapshots", []string{"ID", "AGENT", "SINCE", "COVERS", "FILES", "SIZE", "CONTENT", "NOTE"}, rows)
			}})
		})
	}
	return cmd
}

func (a *app) snapshotShowCmd() *cobra.Command {
	var files bool
	cmd := &cobra.Command{
		Use:   "show ID [PATH] [--files]",
		Short: "Show a snapshot, its files, or the content of one",
		Long: `Show the snapshot ID; with --files the files, links and directories that it has;
with PATH the content of that file, or the target of that link. A content that does
not match its hash is an error.`,
		Args: takes(1, 2, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().BoolVar(&files, "files", false, "list its files, links and directories")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkSnapshots(args[0]); err != nil {
			return err
		}
		if files && len(args) == 2 {
			return usagef("--files and a path cannot be used together")
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			switch {
			case len(args) == 2:
				return a.snapshotContent(ctx, c, args[0], args[1])
			case files:
				return a.snapshotFiles(ctx, c, args[0])
			}
			s, err := c.Snapshot(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(snapshotView(s))
		})
	}
	return cmd
}

func (a *app) snapshotContent(ctx context.Context, c *client.Client, id, path string) error {
	r, err := c.SnapshotContent(ctx, id, path)
	if err != nil {
		return err
	}
	defer r.Close()
	if isTerminal(a.stdout) {
		err = copyEscaped(a.stdout, r)
	} else {
		_, err = io.Copy(a.stdout, r)
	}
	if err != nil {
		return api.Errorf(api.CodeSnapshotCorrupt, "the content was cut short: %w", err)
	}
	return nil
}

func (a *app) snapshotFiles(ctx context.Context, c *client.Client, id string) error {
	all, err := c.SnapshotFiles(ctx, id)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.Path)
	}
	return a.show(view{json: map[string]any{"files": list(all)}, names: names, human: func(p *page) {
		rows := make([][]cell, 0, len(all))
		for _, f := range all {
			rows = append(rows, []cell{{text: f.Kind}, {text: f.Mode}, {text: fmt.Sprint(f.Size)}, {text: short(f.Hash)}, {text: f.Path}})
		}
		p.table("no files", []string{"KIND", "MODE", "SIZE", "CONTENT", "PATH"}, rows)
	}})
}
