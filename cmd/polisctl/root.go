package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// root builds the tree of verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "polisctl",
		Short: "Run many coding agents on one repository without harm",
		Long: `polisctl controls polisd, which lets many coding agents work on one repository
on one machine. Every agent has a branch, a worktree, a sandbox, limits and
ports of its own, and write locks keep two agents from changing the same file
at the same time.`,
		Example: `  polisctl up --repo ~/src/project
  polisctl agents add claude --base claude --port 3000
  polisctl agents exec claude -- go test ./...
  polisctl agents list
  polisctl merge claude`,
		Version:       version,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.json && a.quiet {
				return usagef("--json and --quiet cannot be used together")
			}
			if a.timeout < 0 || a.timeout > 30*24*time.Hour {
				return usagef("timeout %q is not valid: a duration from 0 (no limit of its own) to 720h", a.timeout)
			}
			return nil
		},
	}
	root.SetContext(context.Background())
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&a.socket, "socket", "", "polisd's `PATH` (default $POLIS_SOCKET or /run/polis/polisd.sock)")
	flags.BoolVar(&a.json, "json", false, "print JSON, exactly as the API has it")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print names only, or nothing")
	flags.DurationVar(&a.timeout, "timeout", 0, "give up after `DURATION`, such as 30s")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		a.misread = true
		return usagef("%w", err)
	})
	// A command that only holds others has one usage line, not two. A template for it would link
	// text/template, which keeps the linker from leaving out methods: 2 MB.
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c.HasAvailableSubCommands() {
			run := c.RunE
			c.RunE = nil
			defer func() { c.RunE = run }()
		}
		return usage(c)
	})

	root.AddCommand(
		a.initCmd(), a.adoptCmd(), a.upCmd(), a.downCmd(), a.workspaceCmd(), a.statusCmd(), a.doctorCmd(), a.configCmd(), a.eventsCmd(), a.topCmd(), a.usageCmd(), a.metricsCmd(),
		a.agentsCmd(), a.runTaskCmd(), a.tasksCmd(), a.replayCmd(), a.delegateCmd(), a.workersCmd(), a.sayCmd(), a.sendCmd(), a.broadcastCmd(), a.lockCmd(), a.unlockCmd(), a.locksCmd(), a.waitCmd(), a.doneCmd(), a.askCmd(), a.hookCmd(), a.mcpCmd(), a.acpCmd(), a.portsCmd(),
		a.mergeCmd(), a.queueCmd(), a.revertCmd(), a.discardCmd(), a.restoreCmd(), a.snapshotCmd(), a.timelineCmd(), a.rewindCmd(), a.diffTimelineCmd(), a.checkpointCmd(), a.receiptsCmd(), a.whoCmd(), a.blameCmd(), a.gcCmd(), a.conflictsCmd(), a.approvalsCmd(), a.rolesCmd(), a.learnedCmd(), a.maintenanceCmd(), a.setupCmd(), a.patrolCmd(), a.tuiCmd(), a.raceCmd(), a.racesCmd(),
		a.completionCmd(), a.versionCmd(), a.gitRemoteCmd(), a.exitCodesCmd(),
	)
	root.InitDefaultHelpCmd()
	walk(root, func(c *cobra.Command) {
		c.DisableAutoGenTag = true
		c.DisableFlagsInUseLine = true
	})
	a.completeFlags(root)
	return root
}

// group is the RunE of a command that only holds others.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	err := usagef("unknown command %q for %q", clean(args[0]), cmd.CommandPath())
	if s := everyday(cmd, args[0]); s != "" {
		return err.WithHint("did you mean: %s", s)
	}
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		return err.WithHint("did you mean: %s %s", cmd.CommandPath(), strings.Join(s, ", "))
	}
	return err
}

// everyday is the verb that people mean who type one of agents at the top, or of docker;
// "" if there is none.
func everyday(cmd *cobra.Command, word string) string {
	if cmd.HasParent() {
		return ""
	}
	if word == "ls" || word == "ps" {
		word = "list"
	}
	for _, c := range cmd.Commands() {
		if c.Name() != "agents" {
			continue
		}
		for _, verb := range c.Commands() {
			if verb.Name() == word || verb.HasAlias(word) {
				return verb.CommandPath()
			}
		}
	}
	return ""
}

// takes refuses a wrong number of arguments in words. want names them, such
// as "NAME"; max < 0 means any number.
func takes(min, max int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usagef("%s needs %s", cmd.CommandPath(), want)
		case max == 0 && len(args) > 0:
			return usagef("%s takes no argument, got %q", cmd.CommandPath(), clean(args[0]))
		case max >= 0 && len(args) > max:
			return usagef("%s takes only %s, got also %q", cmd.CommandPath(), want, clean(args[max]))
		}
		return nil
	}
}

func walk(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, c := range cmd.Commands() {
		walk(c, fn)
	}
}
