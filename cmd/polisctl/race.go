package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) raceCmd() *cobra.Command {
	var req api.RaceRequest
	var file, memory, judge string
	var limit, checkLimit time.Duration
	var detach bool
	cmd := &cobra.Command{
		Use:   "race TASK... --agents TYPE,... [OPTION]... [-- CMD...]",
		Short: "Give one task to several new agents, and keep the best result",
		Long: `Give TASK to several new agents, which all start at the target's commit, and wait.
When a task has ended well, its uncommitted changes are committed, and sh runs --check
in that agent's sandbox, where the agent can have changed the files that the check uses;
merge.check of polisd.toml runs outside it. An agent passes if its task ended well, it
has commits, and its check passed.

The best wins: of those that passed the one with the fewest conflicts with other
agents, then the fewest changed lines, then the shortest time. With --judge, CMD is
run here by sh with the race in JSON on standard input, and prints the winner's name.
With --first the first agent that passes wins, and the tasks of the others end. The
winner stays, and is merged with --merge. The others are removed; their work is saved
in the trash, and polisctl restore restores it. Agents of a race take no leases.

Ctrl-C on a terminal asks whether to cancel the race; otherwise the race continues when
polisctl ends. The exit status is 0 if an agent won and, with --merge, was merged.`,
		Example: `  polisctl race "make the store tests pass" --agents claude,codex,gemini --check "go test ./..."
  polisctl race --file task.md --agents claude -n 3 --first --check "npm test" --merge`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeWords(),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&req.Agents, "agents", nil, "base `TYPES` of the agents, separated by commas; see polisctl agents types (default custom if CMD is given)")
	flags.IntVarP(&req.N, "number", "n", 1, "`N` agents of each type")
	flags.StringVar(&req.Check, "check", "", "run `CMD` in each agent's sandbox when its task has ended well")
	flags.StringVar(&judge, "judge", "", "run `CMD` on this machine to choose the winner of those that passed")
	flags.BoolVar(&req.First, "first", false, "the first agent that passes wins, and the others are cancelled")
	flags.BoolVar(&req.Merge, "merge", false, "merge the winner")
	flags.StringVarP(&file, "file", "F", "", "read the task from `FILE`")
	flags.StringVarP(&req.Workspace, "workspace", "w", "", "`WORKSPACE` to work in (default: that of the current directory, or the only one)")
	flags.StringVar(&req.Role, "role", "", "`ROLE` of the agents")
	flags.StringVar(&req.Model, "model", "", "the `MODEL` that the agents' programs use")
	flags.StringVarP(&memory, "memory", "m", "", "memory limit of each agent in `MB`, or as in 2GB")
	flags.StringSliceVar(&req.Egress, "egress", nil, "let them reach `WHERE`, as for polisctl agents add")
	flags.DurationVar(&limit, "for", api.RaceTime*time.Second, "end tasks that take longer than `TIME`")
	flags.DurationVar(&checkLimit, "check-for", api.RaceCheckTime*time.Second, "end a check that takes longer than `TIME`: it has failed")
	flags.BoolVarP(&detach, "detach", "d", false, "only start the race")
	flags.BoolVar(&req.Force, "force", false, "start the race even if the machine has no room for the agents")
	_ = cmd.RegisterFlagCompletionFunc("agents", a.completeTypes) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words := args
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			words, req.Command = args[:n], args[n:]
		}
		if len(req.Agents) == 0 && len(req.Command) > 0 {
			req.Agents = []string{customType}
		}
		req.Judge, req.Seconds, req.CheckSeconds = judge != "", int(limit/time.Second), int(checkLimit/time.Second)
		if err := a.raceRequest(&req, words, file, memory); err != nil {
			return err
		}
		if detach && judge != "" {
			return usagef("--judge and --detach cannot be used together: polisctl races choose chooses later")
		}
		var race api.Race
		err := a.call(cmd, longCall, func(ctx context.Context, c *client.Client) (err error) {
			if req.Workspace == "" {
				if req.Workspace, err = here(ctx, c); err != nil {
					return err
				}
			}
			race, err = c.Race(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		if detach {
			return a.show(view{json: race, names: []string{race.ID}, human: func(p *page) {
				p.line("race %s has begun with %s; see polisctl races show %s", race.ID, api.Count(len(race.Racers), "agent"), race.ID)
			}})
		}
		return a.followRace(cmd, race, judge)
	}
	return cmd
}

// raceRequest checks the words and flags of a race.
func (a *app) raceRequest(req *api.RaceRequest, words []string, file, memory string) (err error) {
	switch {
	case file != "" && len(words) > 0:
		return usagef("the task is given by --file and by words: only one can be used")
	case file != "":
		req.Task, err = readPrompt(file)
	case len(words) == 0:
		return usagef("polisctl race needs a TASK: words, - or --file")
	default:
		req.Task, err = a.prompt(words)
	}
	if err != nil {
		return err
	}
	if len(req.Agents) == 0 {
		return usagef("polisctl race needs --agents, or a command after --")
	}
	if n := len(req.Agents) * req.N; req.N < 1 || n > api.MaxRacers {
		return usagef("a race of %d agents is not possible: from 1 to %d", n, api.MaxRacers)
	}
	for _, base := range req.Agents {
		if err := checkWord("agents", base, 64); err != nil {
			return err
		}
	}
	if req.First && req.Judge {
		return usagef("--first and --judge cannot be used together: the first that passes wins")
	}
	if req.Seconds < 1 || req.CheckSeconds < 1 {
		return usagef("--for and --check-for must be at least a second")
	}
	if err := checkCommand(req.Command); err != nil {
		return err
	}
	if req.MemoryMB, err = parseMemory(memory); err != nil {
		return err
	}
	if req.Egress, err = egressWords(req.Egress); err != nil {
		return err
	}
	return checkWorkspace(req.Workspace)
}

// racePage shows a race and its agents.
func racePage(p *page, x api.Race) {
	p.line("race %s in workspace %s: %s", x.ID, x.Workspace, x.State)
	rows := make([][]cell, 0, len(x.Racers))
	for _, r := range x.Racers {
		name, check, diff, cost := cell{text: r.Agent}, cell{text: "-"}, "-", "-"
		if r.Agent == x.Winner {
			name = cell{"* " + r.Agent, green}
		}
		if r.CheckCode != nil {
			check = cell{"passed", green}
			if *r.CheckCode != 0 {
				check = cell{fmt.Sprintf("failed (%d)", *r.CheckCode), red}
			}
		}
		if r.Commits > 0 {
			diff = fmt.Sprintf("%s +%d -%d", api.Count(r.Files, "file"), r.Insertions, r.Deletions)
		}
		if r.Models != nil {
			cost = modeltext.Cost(r.Models)
		}
		if cost == modeltext.None && r.CostUSD != nil { // as its program says
			cost = fmt.Sprintf("$%.2f", *r.CostUSD)
		}
		result := r.Result
		if r.Error != "" {
			result = string(r.State) + ": " + r.Error
		} else if result == "" {
			result = string(r.State)
		}
		rows = append(rows, []cell{name, {text: clean(api.Shorten(result, 60))}, check, {text: secondsText(r.Seconds)}, {text: diff}, {text: rivalsText(r.Conflicts)}, {text: cost}, {text: clean(r.Trash)}})
	}
	p.table("no agents", []string{"AGENT", "RESULT", "CHECK", "TIME", "DIFF", "CONFLICTS", "COST", "TRASH"}, rows)
	switch {
	case x.MergeCommitSHA != "":
		p.line("%s won, and is merged as %s", x.Winner, x.MergeCommitSHA[:min(7, len(x.MergeCommitSHA))])
	case x.Winner != "":
		p.line("%s won: polisctl agents diff %s, polisctl merge %s", x.Winner, x.Winner, x.Winner)
	case x.State == api.RaceEnded:
		p.line("no agent passed")
	case x.State == api.RaceJudging:
		p.line("it waits for a choice: polisctl races choose %s AGENT", x.ID)
	}
	if x.Error != "" {
		p.warn("%s", clean(x.Error))
	}
}

func secondsText(s float64) string {
	if s == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func rivalsText(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return clean(api.Shorten(fmt.Sprint(names), 60))
}
