package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

// initAnswers are what the administrator chooses: by flags, at the prompts, or by default.
type initAnswers struct {
	repo, base, check, egress string
	config                    string // the file that is changed
	yes                       bool
}

// initResult is what init found and did.
type initResult struct {
	Doctor    api.DoctorReport `json:"doctor"`
	Types     []string         `json:"types"`
	Workspace api.Workspace    `json:"workspace"`
	Created   bool             `json:"created"`
	// ClonedFrom is as in api.UpResponse.
	ClonedFrom string   `json:"cloned_from,omitempty"`
	Base       string   `json:"base,omitempty"`
	Config     string   `json:"config,omitempty"`
	Changed    []string `json:"changed"`
	Next       []string `json:"next"`
	Warnings   []string `json:"warnings,omitempty"`
}

func (a *app) initCmd() *cobra.Command {
	var ans initAnswers
	cmd := &cobra.Command{
		Use:   "init [--repo PATH|URL] [--base TYPE] [--check COMMAND] [--egress LIST] [--yes]",
		Short: "Set up polis for a repository, step by step",
		Long: `Check this machine, find the installed agents, put a repository under polis, and
write the configuration that you choose. On a terminal, init prompts for what no
flag gives, and shows a default; elsewhere, or with --yes, it takes the defaults.
It ends with the next three commands. Running it again changes nothing that is set.

Only root can change the configuration; members of the group polis can do the rest.`,
		Example: `  polisctl init
  sudo polisctl init --repo ~/src/project --base claude --check 'make test' --yes`,
		Args: takes(0, 0, ""),
	}
	f := cmd.Flags()
	f.StringVar(&ans.repo, "repo", ".", "the repository: a directory or a `URL`")
	f.StringVar(&ans.base, "base", "", "the base `TYPE` of the first agent (default: the first that is installed)")
	f.StringVar(&ans.check, "check", "", "a shell `COMMAND` that must succeed before a merge")
	f.StringVar(&ans.egress, "egress", "", "where agents may connect to: open, none, ask, or a `LIST` of names")
	f.StringVar(&ans.config, "config", "/etc/polis/polisd.toml", "the configuration `FILE` of polisd")
	f.BoolVarP(&ans.yes, "yes", "y", false, "take the defaults without prompts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		repo, err := repository(ans.repo)
		if err != nil {
			return err
		}
		ans.repo = repo
		var ask *prompter
		if !ans.yes && !a.json && !a.quiet && isTerminal(a.stdin) && isTerminal(a.stderr) {
			ask = &prompter{in: bufio.NewReader(a.stdin), out: a.stderr}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			res, err := a.initialize(ctx, c, ans, ask, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return a.show(view{json: res, names: []string{res.Workspace.Name}, human: func(p *page) { initPage(p, res) }})
		})
	}
	return cmd
}

// initialize does the steps in an order in which a failure leaves nothing half done: checks, questions,
// configuration, workspace.
func (a *app) initialize(ctx context.Context, c *client.Client, ans initAnswers, ask *prompter, given func(string) bool) (initResult, error) {
	res := initResult{Types: []string{}, Changed: []string{}}
	var err error
	if res.Doctor, err = c.Doctor(ctx); err != nil {
		return res, err
	}
	for _, k := range res.Doctor.Checks {
		if k.State == api.CheckFail {
			return res, api.Errorf(cmp.Or(k.Code, api.CodeInternal), "this machine cannot run agents: %s: %s", k.Name, k.Found).WithHint("%s", k.Fix)
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
	if ask != nil {
		guess := projectCheck(ans.repo)
		if !given("check") {
			if ans.check, err = ask.line("Command that must succeed before a merge, such as "+orElse(guess, "make test"), "none"); err != nil {
				return res, err
			}
		}
		if !given("egress") {
			if ans.egress, err = ask.line("Where may agents connect to (open, none, ask, or a list of names)", "open"); err != nil {
				return res, err
			}
		}
	}
	edit := a.configuration(ans)
	if err := edit.prepare(); err != nil {
		return res, err
	}
	resp, err := a.makeWorkspace(ctx, c, api.UpRequest{Repo: ans.repo})
	if err != nil {
		return res, err
	}
	res.Workspace, res.Created, res.ClonedFrom, res.Warnings = resp.Workspace, resp.Created, resp.ClonedFrom, resp.Warnings
	edit.workspace(resp.Workspace.Name)
	if res.Changed, err = edit.write(ctx, c); err != nil {
		return res, err
	}
	if len(res.Changed) > 0 {
		res.Config = ans.config
	}
	res.Warnings = append(res.Warnings, edit.kept...)
	res.Next = nextCommands(res)
	return res, nil
}

// chooseBase settles on the type of the first agent.
func chooseBase(ans *initAnswers, types []client.AgentType, available []string, ask *prompter) error {
	if ans.base == "" && len(available) > 0 {
		ans.base = available[0]
		if slices.Contains(available, "claude") {
			ans.base = "claude"
		}
		if ask != nil {
			var err error
			if ans.base, err = ask.line("Base type of the first agent ("+strings.Join(available, ", ")+")", ans.base); err != nil {
				return err
			}
		}
	}
	i := slices.IndexFunc(types, func(t client.AgentType) bool { return t.Name == ans.base })
	switch {
	case ans.base == "":
		hint := "polisctl agents types lists them"
		if i := slices.IndexFunc(types, func(t client.AgentType) bool { return t.Name == "claude" && t.Install != "" }); i >= 0 {
			hint = types[i].Install
		}
		return api.Errorf(api.CodeAgentTypeUnavailable, "no program of an agent is installed").WithHint("%s; for a command of your own: polisctl init --base custom", hint)
	case i < 0:
		return api.Errorf(api.CodeAgentTypeUnavailable, "there is no base type %q", api.Shorten(ans.base, 64)).WithHint("polisctl agents types lists them")
	case !types[i].Available:
		return api.Errorf(api.CodeAgentTypeUnavailable, "base type %s cannot be used: %s", ans.base, types[i].Reason).
			WithHint("%s", orElse(types[i].Install, "install "+types[i].Program+" for all users"))
	}
	return nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// nextCommands are the three that a newcomer types next.
func nextCommands(res initResult) []string {
	where := ""
	if res.Workspace.Agents > 0 {
		where = " --workspace " + res.Workspace.Name
	}
	if res.Base == "custom" {
		return []string{"polisctl agents add worker" + where + " --base custom", "polisctl agents shell worker", "polisctl status"}
	}
	return []string{
		fmt.Sprintf("polisctl agents add %s%s --base %s", res.Base, where, res.Base),
		fmt.Sprintf("polisctl run %s %q", res.Base, "explain what this project does, in NOTES.md"),
		"polisctl tui",
	}
}

func initPage(p *page, res initResult) {
	warnings := 0
	for _, c := range res.Doctor.Checks {
		if c.State == api.CheckWarn {
			warnings++
		}
	}
	p.line("machine     ready%s", map[bool]string{true: fmt.Sprintf(", with %s: polisctl doctor", api.Count(warnings, "warning"))}[warnings > 0])
	for _, c := range res.Doctor.Checks {
		if c.Code == api.CodeNetworkBlocked {
			p.warn("%s; %s: %s", c.Found, c.Cost, c.Fix)
		}
	}
	p.line("agents      %s", orElse(strings.Join(res.Types, ", "), "no program is installed; custom runs any command"))
	p.line("workspace   %s at %s", res.Workspace.Name, res.Workspace.Path)
	if res.ClonedFrom != "" {
		p.line("            a clone of %s, which is a bare repository", res.ClonedFrom)
	}
	for _, c := range res.Changed {
		p.line("configured  %s in %s", c, res.Config)
	}
	for _, w := range res.Warnings {
		p.warn("%s", w)
	}
	p.line("")
	p.line("Next:")
	for _, n := range res.Next {
		p.line("  %s", n)
	}
}

// A prompter asks for one line at a time.
type prompter struct {
	in  *bufio.Reader
	out *os.File
}

// line returns the answer, or the default for an empty one; "none" is "".
func (p *prompter) line(question, def string) (string, error) {
	fmt.Fprintf(p.out, "%s [%s]: ", question, def)
	text, err := p.in.ReadString('\n')
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "no answer; nothing was changed")
	}
	if text = strings.TrimSpace(text); text == "" {
		text = def
	}
	if text == "none" && def == "none" {
		text = ""
	}
	return text, nil
}

// projectChecks are files that show how a project is tested.
var projectChecks = []struct{ file, contains, command string }{
	{"Makefile", "\ntest:", "make test"},
	{"package.json", `"test"`, "npm test"},
	{"go.mod", "", "go test ./..."},
	{"Cargo.toml", "", "cargo test"},
	{"pyproject.toml", "", "python3 -m pytest"},
}

// projectCheck guesses the command that tests a project; "" if nothing shows it. It reads a bounded part of
// regular files, as the caller.
func projectCheck(repo string) string {
	for _, c := range projectChecks {
		path := filepath.Join(repo, c.file)
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > 1<<20 {
			continue
		}
		if b, err := os.ReadFile(path); err == nil && strings.Contains("\n"+string(b), c.contains) {
			return c.command
		}
	}
	return ""
}

// reloadTime bounds the check of the changed configuration.
const reloadTime = 30 * time.Second
