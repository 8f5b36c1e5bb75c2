package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

const (
	// completedTasks bounds the tasks that are offered, the newest ones.
	completedTasks = 50
	// completedText bounds the description of one offered word.
	completedText = 60
)

// offered is a word with its description, as cobra reads them. The text can be an agent's.
func offered(word, about string) string {
	return word + "\t" + strings.ReplaceAll(clean(api.Shorten(about, completedText)), "\t", " ")
}

// completeTasks offers the IDs of the last tasks, the newest first.
func (a *app) completeTasks(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return ordered(a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.AllTasks(ctx, "", completedTasks)
		var out []string
		for i := len(all) - 1; i >= 0; i-- {
			if t := all[i]; t.ID != "" {
				out = append(out, offered(t.ID, t.Result+" "+t.Prompt))
			}
		}
		return out, err
	}))
}

// completeQueued offers the agents in the merge queues.
func (a *app) completeQueued(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Queues(ctx, "")
		var out []string
		for _, q := range all {
			for _, e := range q.Entries {
				out = append(out, e.Agent)
			}
		}
		return out, err
	})
}

// completeRaces offers the IDs of races, and for a second argument the agents of that race.
func (a *app) completeRaces(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 && strings.Contains(cmd.Use, "AGENT") {
		return a.complete(cmd, nil, func(ctx context.Context, c *client.Client) ([]string, error) {
			x, err := c.GetRace(ctx, args[0], 0)
			var out []string
			for _, r := range x.Racers {
				out = append(out, r.Agent)
			}
			return out, err
		})
	}
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Races(ctx, "")
		var out []string
		for _, x := range all {
			out = append(out, offered(x.ID, string(x.State)+" "+x.Request.Task))
		}
		return out, err
	})
}

// completeMoments offers the checkpoints and snapshots of the agent that is named before it, the newest first.
func (a *app) completeMoments(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ordered(a.complete(cmd, nil, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Timeline(ctx, args[0])
		var out []string
		for i := len(all) - 1; i >= 0; i-- {
			out = append(out, offered(all[i].ID, fmt.Sprintf("%s, %s", all[i].Time.Local().Format("15:04:05"), whyOf(all[i]))))
		}
		return out, err
	}))
}

// completeWorkspaces offers the names of the workspaces.
func (a *app) completeWorkspaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, nil, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Workspaces(ctx)
		var out []string
		for _, w := range all {
			out = append(out, w.Name)
		}
		return out, err
	})
}

// ordered has the shell leave the words in their order.
func ordered(words []string, d cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
	return words, d | cobra.ShellCompDirectiveKeepOrder
}

// completeFlags completes the flags that mean the same in every command.
func (a *app) completeFlags(cmd *cobra.Command) {
	for flag, words := range map[string]cobra.CompletionFunc{
		"workspace": a.completeWorkspaces,
		"role": func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return a.completeRoles(cmd, nil, word)
		},
	} {
		if f := cmd.Flags().Lookup(flag); f == nil || f.Value.Type() != "string" {
			continue
		}
		if _, ok := cmd.GetFlagCompletionFunc(flag); !ok {
			_ = cmd.RegisterFlagCompletionFunc(flag, words) //nolint:errcheck // the flag exists
		}
	}
	for _, sub := range cmd.Commands() {
		a.completeFlags(sub)
	}
}
