package main

import (
	"bufio"
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// initAnswers are what the administrator chooses: by flags, at the prompts, or by default.
type initAnswers struct {
	repo, base, check, egress string
	config                    string // the file that is changed; "": the one that polisd uses
	clone                     bool
	yes                       bool
}

// initResult is what init found and did.
type initResult struct {
	// Checks are the rows of the table: of the project, then of the machine.
	Checks    []api.Finding    `json:"checks"`
	Doctor    api.DoctorReport `json:"doctor"`
	Types     []string         `json:"types"`
	Workspace api.Workspace    `json:"workspace"`
	Created   bool             `json:"created"`
	// ClonedFrom is as in api.UpResponse.
	ClonedFrom string   `json:"cloned_from,omitempty"`
	Base       string   `json:"base,omitempty"`
	Config     string   `json:"config,omitempty"`
	Changed    []string `json:"changed"`
	// Pending is the command that writes the configuration, if the caller may not.
	Pending  string   `json:"pending,omitempty"`
	Next     []string `json:"next"`
	Warnings []string `json:"warnings,omitempty"`
}

func (a *app) initCmd() *cobra.Command {
	var ans initAnswers
	cmd := &cobra.Command{
		Use:   "init [--repo PATH|URL] [--base TYPE] [--check COMMAND] [--egress LIST] [--yes]",
		Short: "Set up polis for a repository, step by step",
		Long: `Check this machine, find the installed agents, put a repository under polis, and
write the configuration that you choose. On a terminal, init prompts for what no
flag gives, and shows a default; elsewhere, or with --yes, it takes the defaults.

It prints a table of what it found in the project and on the machine: what works with
agents, what does not or only in part, what to do, and the command for it. It ends
with the next commands. Running it again changes nothing that is set.

Only root can change the configuration; members of the group polis can do the rest.
For them, init ends with status 5 and prints the command that root runs, with all answers.`,
		Example: `  polisctl init
  sudo polisctl init --repo ~/src/project --base claude --check 'make test' --yes`,
		Args: takes(0, 0, ""),
	}
	f := cmd.Flags()
	f.StringVar(&ans.repo, "repo", ".", "the repository: a directory or a `URL`")
	f.StringVar(&ans.base, "base", "", "the base `TYPE` of the first agent (default: the first that is installed)")
	f.StringVar(&ans.check, "check", "", "a shell `COMMAND` that must succeed before a merge")
	f.StringVar(&ans.egress, "egress", "", "where agents may connect to: open, none, ask, or a `LIST` of names")
	f.StringVar(&ans.config, "config", "", "the configuration `FILE` of polisd (default: the one that it uses)")
	f.BoolVar(&ans.clone, "clone", false, "clone a bare repository also if it has worktrees")
	f.BoolVarP(&ans.yes, "yes", "y", false, "take the defaults without prompts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		repo, err := repository(ans.repo)
		if err != nil {
			return err
		}
		ans.repo = repo
		if err := noCommand(ans.check); err != nil {
			return err
		}
		var ask *prompter
		if !ans.yes && !a.json && !a.quiet && isTerminal(a.stdin) && isTerminal(a.stderr) {
			ask = &prompter{in: bufio.NewReader(a.stdin), out: a.stderr}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			res, err := a.initialize(ctx, c, ans, ask, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if err := a.show(view{json: res, names: []string{res.Workspace.Name}, human: func(p *page) { initPage(p, res) }}); err != nil {
				return err
			}
			if res.Pending != "" {
				return api.Errorf(api.CodeForbidden, "only root can change %s; all else is done", res.Config).WithHint("%s", res.Pending)
			}
			return nil
		})
	}
	return cmd
}

// initialize does the steps in an order in which a failure leaves nothing half done: checks, questions,
// configuration, workspace.
func (a *app) initialize(ctx context.Context, c *client.Client, ans initAnswers, ask *prompter, given func(string) bool) (initResult, error) {
	res := initResult{Types: []string{}, Changed: []string{}, Checks: []api.Finding{}}
	var err error
	if res.Doctor, err = c.Doctor(ctx); err != nil {
		return res, err
	}
	for _, k := range res.Doctor.Checks {
		if k.State == api.CheckFail {
			hint := k.Fix
			if k.Command != "" {
				hint += ": " + k.Command
			}
			return res, api.Errorf(cmp.Or(k.Code, api.CodeInternal), "this machine cannot run agents: %s: %s", k.Name, k.Found).WithHint("%s", hint)
		}
	}
	types, err := c.Types(ctx)
	if err != nil {
		return res, err
	}
	for _, t := range types {
		if t.Available && t.Program != "" {
			res.Types = append(res.Types, t.Name)
		}
	}
	if err := chooseBase(&ans, types, res.Types, ask); err != nil {
		return res, err
	}
	res.Base = ans.base
	if err := ask.rest(&ans, given); err != nil {
		return res, err
	}
	edit, err := newConfigEdit(ctx, c, ans)
	if err != nil {
		return res, err
	}
	resp, err := a.makeWorkspace(ctx, c, api.UpRequest{Repo: ans.repo, Clone: ans.clone})
	if err != nil {
		return res, err
	}
	res.Workspace, res.Created, res.ClonedFrom, res.Warnings = resp.Workspace, resp.Created, resp.ClonedFrom, resp.Warnings
	edit.workspace(resp.Workspace.Name)
	if edit.forbidden && edit.needed() {
		ans.clone = ans.clone || resp.ClonedFrom != ""
		res.Config, res.Pending = edit.file.Path, a.asRoot(initWords(ans, edit.file.Path)...)
	} else if res.Changed, err = edit.write(ctx, c); err != nil { // of a caller who may not, all is set
		return res, err
	}
	if len(res.Changed) > 0 {
		res.Config = edit.file.Path
	}
	res.Warnings = append(res.Warnings, edit.kept...)
	res.Next = nextCommands(res)
	rep, err := c.ProjectChecks(ctx, resp.Workspace.Name)
	if err != nil { // all else is done
		res.Warnings = append(res.Warnings, "the project could not be described: "+api.AsError(err).Message)
	}
	res.Checks = allChecks(rep, res.Doctor)
	return res, nil
}

// initWords are the words of a command line of init that has all answers.
func initWords(ans initAnswers, file string) []string {
	words := []string{"init", "--repo", ans.repo, "--base", ans.base, "--config", file}
	if ans.check != "" {
		words = append(words, "--check", ans.check)
	}
	if ans.egress != "" {
		words = append(words, "--egress", ans.egress)
	}
	if ans.clone {
		words = append(words, "--clone")
	}
	return append(words, "--yes")
}
