package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/foreign"
)

// adopted is the result of polisctl adopt for one worktree.
type adopted struct {
	Path   string `json:"path"`
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit"`
	Agent  string `json:"agent,omitempty"`
	// Commits is how many commits the agent's branch got, Changed and Untracked how many files.
	Commits   int  `json:"commits"`
	Changed   int  `json:"changed"`
	Untracked int  `json:"untracked"`
	Done      bool `json:"done"`
	// Reason is why the worktree was not adopted.
	Reason string `json:"reason,omitempty"`
}

type adoptResult struct {
	Worktrees []adopted         `json:"worktrees"`
	Settings  []foreign.Setting `json:"settings"`
	Warnings  []string          `json:"warnings,omitempty"`
}

func (a *app) adoptCmd() *cobra.Command {
	var repo, base, workspace string
	var dry bool
	cmd := &cobra.Command{
		Use:   "adopt [--repo PATH] [--base TYPE] [--dry-run] [WORKTREE...]",
		Short: "Continue the work of existing git worktrees as agents",
		Long: `Make an agent of each git worktree of a project, such as those in .claude/worktrees or
those that Conductor made: the agent gets its commits, its uncommitted changes and its
untracked files, on a branch of its own. The worktree itself stays as it is, and nothing
in it is changed or moved. WORKTREE selects worktrees by path.

It also prints the settings of other tools that the project has (conductor.json, Claude
Code, sandbox-runtime, devcontainer.json): the setting of polis with the same effect,
or that there is none. These settings are printed and not applied.

Run it as the owner of the project. Ignored files are not copied: polis shares those of
the project. All uncommitted changes are staged in the agent.`,
		Example: `  polisctl adopt --dry-run
  polisctl adopt --base claude .claude/worktrees/fix-login`,
	}
	f := cmd.Flags()
	f.StringVar(&repo, "repo", ".", "the project: a `DIRECTORY` with a git repository")
	f.StringVarP(&base, "base", "b", customType, "base `TYPE` of the agents")
	f.StringVarP(&workspace, "workspace", "w", "", "`WORKSPACE` of the agents (default: that of the project)")
	f.BoolVar(&dry, "dry-run", false, "only list worktrees and settings")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := absolute("repo", repo)
		if err != nil {
			return err
		}
		only := make([]string, len(args))
		for i, p := range args {
			if only[i], err = absolute("WORKTREE", p); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			res, err := a.adopt(ctx, c, dir, only, api.AddRequest{BaseType: base, AgentSpec: api.AgentSpec{Workspace: workspace}}, dry)
			if err != nil {
				return err
			}
			if err := a.show(view{json: res, names: res.agents(), human: func(p *page) { adoptPage(p, res, dry) }}); err != nil {
				return err
			}
			if slices.ContainsFunc(res.Worktrees, func(w adopted) bool { return !dry && !w.Done }) {
				return childStatus(exitFailure)
			}
			return nil
		})
	}
	return cmd
}

func (r adoptResult) agents() (out []string) {
	for _, w := range r.Worktrees {
		if w.Done {
			out = append(out, w.Agent)
		}
	}
	return out
}

func (a *app) adopt(ctx context.Context, c *client.Client, dir string, only []string, req api.AddRequest, dry bool) (adoptResult, error) {
	res := adoptResult{Worktrees: []adopted{}, Settings: []foreign.Setting{}}
	trees, err := listWorktrees(ctx, dir)
	if err != nil {
		return res, err
	}
	for _, p := range only {
		if !slices.ContainsFunc(trees, func(t ownTree) bool { return t.path == p }) {
			return res, api.Errorf(api.CodeBadRequest, "%s is not a linked worktree of %s", p, dir).WithHint("git worktree list shows them")
		}
	}
	if settings, warning := foreignSettings(dir, a.getenv("HOME")); warning != nil {
		res.Settings, res.Warnings = list(settings), strings.Split(warning.Error(), "\n")
	} else {
		res.Settings = list(settings)
	}
	taken := map[string]bool{}
	if !dry {
		if req.Workspace == "" {
			up, err := c.Up(ctx, api.UpRequest{Repo: dir}, nil)
			if err != nil {
				return res, err
			}
			req.Workspace = up.Workspace.Name
		}
		agents, err := c.Agents(ctx, "")
		if err != nil {
			return res, err
		}
		for _, g := range agents {
			taken[g.Name] = true
		}
	}
	p := a.progress("adopting worktrees")
	defer p.done()
	for _, t := range trees {
		if len(only) > 0 && !slices.Contains(only, t.path) {
			continue
		}
		w := adopted{Path: t.path, Branch: t.branch, Commit: t.commit, Agent: agentName(t, taken)}
		taken[w.Agent] = true
		if err := t.measure(ctx, &w); err != nil {
			w.Reason = errorText(err)
		} else if !dry {
			p.step("agent " + w.Agent)
			req.Name = w.Agent
			if err := a.adoptTree(ctx, c, t, &w, req); err != nil {
				w.Reason = errorText(err)
			}
		}
		res.Worktrees = append(res.Worktrees, w)
	}
	p.done()
	return res, nil
}

func errorText(err error) string {
	e := api.AsError(err)
	if e.Hint != "" {
		return e.Message + "; " + e.Hint
	}
	return e.Message
}

// foreignSettings reads what other tools configured in the project, and in the caller's home.
func foreignSettings(dir, home string) ([]foreign.Setting, error) {
	project, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer project.Close()
	var own *os.Root
	if filepath.IsAbs(home) {
		if own, err = os.OpenRoot(home); err == nil {
			defer own.Close()
		} else {
			own = nil
		}
	}
	return foreign.Read(project, own)
}

// agentName makes the name of an agent from that of a worktree's branch or directory.
func agentName(t ownTree, taken map[string]bool) string {
	word := cmp.Or(t.branch, filepath.Base(t.path))
	word = word[strings.LastIndexByte(word, '/')+1:]
	var b strings.Builder
	for _, r := range strings.ToLower(word) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	name = strings.Trim(name[:min(len(name), 24)], "-")
	if len(name) < 2 {
		name = "worktree"
	}
	for i, first := 2, name; taken[name] || api.CheckName(name) != nil; i++ {
		name = fmt.Sprintf("%s-%d", first, i)
	}
	return name
}

func adoptPage(p *page, res adoptResult, dry bool) {
	rows := make([][]cell, 0, len(res.Worktrees))
	for _, w := range res.Worktrees {
		state := cell{"adopted", green}
		switch {
		case w.Reason != "":
			state = cell{"refused", red}
		case dry:
			state = cell{"found", dim}
		}
		rows = append(rows, []cell{{text: w.Path}, {text: cmp.Or(w.Branch, "-")}, {text: w.Agent}, state, {text: api.Count(w.Changed+w.Untracked, "changed file")}})
	}
	p.table("no worktrees besides the project itself", []string{"WORKTREE", "BRANCH", "AGENT", "STATE", "WORK"}, rows)
	for _, w := range res.Worktrees {
		if w.Reason != "" {
			p.warn("%s: %s", w.Path, w.Reason)
		}
	}
	for _, w := range res.Warnings {
		p.warn("%s", w)
	}
	if len(res.Settings) == 0 {
		return
	}
	p.line("")
	p.line("Settings of other tools:")
	for _, s := range res.Settings {
		p.line("  %s: %s = %s", s.File, s.Key, api.Shorten(s.Value, 80))
		if len(s.Options) > 0 {
			p.line("    option   polisctl agents add ... %s", commandText(s.Options))
		}
		for line := range strings.SplitSeq(s.Config, "\n") {
			if s.Config != "" {
				p.line("    polisd.toml   %s", line)
			}
		}
		if s.Note != "" {
			p.line("    no equivalent: %s", s.Note)
		}
	}
}

var errChanged = errors.New("the files in the agent differ from those in the worktree")
