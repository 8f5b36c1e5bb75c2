package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// maxChoice bounds what a judge may print, in bytes.
const maxChoice = 4 << 10

// followRace waits for the end of a race and shows it.
func (a *app) followRace(cmd *cobra.Command, x api.Race, judge string) error {
	c := a.client()
	defer c.Close()
	id := x.ID
	var agents []string
	for _, r := range x.Racers {
		agents = append(agents, r.Agent)
	}
	ctx, over, stop := a.followContext(cmd, following{
		agents: agents,
		what:   "race " + id, hint: "polisctl races show " + id,
		question: "Cancel race " + id + ", and save the work of its agents in the trash? y cancels it",
		left:     "race " + id + " continues; polisctl races show " + id + " shows its result",
		end:      func(ctx context.Context) error { _, err := c.CancelRace(ctx, id); return err },
	})
	defer stop()
	p := a.progress("race " + x.ID + " of " + api.Count(len(x.Racers), "agent"))
	defer p.done()
	ended := func() bool { return x.State == api.RaceEnded || x.State == api.RaceCancelled }
	for !ended() {
		if x.State == api.RaceJudging {
			winner, err := a.judge(ctx, x, judge)
			if err != nil {
				return a.leftTask(ctx, err)
			}
			if x, err = c.ChooseRace(ctx, id, winner); err != nil {
				return a.leftTask(ctx, err)
			}
		}
		err := a.pollToEnd(ctx, func() (bool, error) {
			now, err := c.GetRace(ctx, id, taskPoll)
			if err == nil {
				x = now
			}
			return ended() || x.State == api.RaceJudging, err
		})
		if err != nil {
			return a.leftTask(ctx, err)
		}
	}
	p.done()
	over()
	if err := a.showRace(x); err != nil {
		return err
	}
	if x.Winner == "" || x.Request.Merge && x.MergeCommitSHA == "" {
		return childStatus(exitFailure)
	}
	return nil
}

func (a *app) showRace(x api.Race) error {
	return a.show(view{json: x, names: []string{x.Winner}, human: func(p *page) { racePage(p, x) }})
}

// judge runs the user's command, which chooses one of those that passed.
func (a *app) judge(ctx context.Context, x api.Race, command string) (string, error) {
	wait := api.Errorf(api.CodeBadState, "race %s waits for a choice", x.ID).WithHint("polisctl races choose %s AGENT", x.ID)
	if command == "" {
		return "", wait
	}
	in, err := json.Marshal(x)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command) //nolint:forbidigo // the caller's own command, as the caller
	var out bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), a.stderr, lastOutput
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	_, rerr := io.Copy(&out, io.LimitReader(pipe, maxChoice))
	pipe.Close() //nolint:errcheck // Wait closes it, too
	if err := cmd.Wait(); err != nil || rerr != nil {
		return "", api.Errorf(api.CodeBadState, "the judge of race %s failed: %w", x.ID, errors.Join(err, rerr)).WithHint("polisctl races choose %s AGENT", x.ID)
	}
	winner := strings.TrimSpace(out.String())
	for _, r := range x.Racers {
		if r.Agent == winner {
			return winner, nil
		}
	}
	return "", api.Errorf(api.CodeBadState, "the judge of race %s printed %q, which is no agent of it", x.ID, clean(api.Shorten(winner, 64))).WithHint("polisctl races choose %s AGENT", x.ID)
}
