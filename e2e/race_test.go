package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) race(id string) (x api.Race) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "races", "show", id)), &x))
	return x
}

// begun starts a race whose agents run the task as a script.
func (d *daemon) begun(task string, flags ...string) (x api.Race) {
	d.t.Helper()
	args := append([]string{"--json", "race", task, "--detach"}, flags...)
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append(args, "--", "sh", "-ec")...)), &x))
	return x
}

func (d *daemon) raced(task string, flags ...string) (x api.Race, r result) {
	d.t.Helper()
	r = d.ctl(append(append([]string{"--json", "race", task}, flags...), "--", "sh", "-ec")...)
	require.NoError(d.t, json.Unmarshal([]byte(r.stdout), &x), r)
	return x, r
}

// TestTheBestOfARaceIsMergedAndTheOthersAreSaved: all change the same file at the same time, from
// one commit.
func TestTheBestOfARaceIsMergedAndTheOthersAreSaved(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	task := `case $(hostname) in *-1) echo good > main.txt; seq 100 > more.txt;; *-2) echo bad > main.txt;; *-3) echo good > main.txt;; *-4) false;; esac`
	x, r := d.raced(task, "-n", "4", "--check", "grep -q good main.txt || { echo it is not; exit 3; }", "--merge")
	require.Zero(t, r.code, r)
	require.Equal(t, api.RaceEnded, x.State)
	require.Len(t, x.Racers, 4)
	require.Equal(t, x.Racers[2].Agent, x.Winner, "it passed, and changed least")
	require.NotEmpty(t, x.MergeCommitSHA)
	require.Equal(t, "good", strings.TrimSpace(readFile(d.path("src", "main.txt"))))
	require.Equal(t, "merged as "+x.MergeCommitSHA[:7], x.Racers[2].Result, "the row of the winner is what the last line is")
	require.NotRegexp(t, `(?m)^\* .*not merged`, d.must("races", "show", x.ID))
	for i, code := range []int{0, 3, 0} {
		p := x.Racers[i]
		require.True(t, p.OK, p)
		require.NotNil(t, p.CheckCode, p)
		require.Equal(t, code, *p.CheckCode, p)
		require.Equal(t, 1, p.Commits, "what it left is committed")
		_, there := d.agent(p.Agent)
		require.Equal(t, p.Agent == x.Winner, there)
		if p.Agent != x.Winner {
			require.NotEmpty(t, p.Trash)
			require.NotEmpty(t, git(t, d.internal(), "rev-parse", p.Trash))
		}
	}
	require.Equal(t, []any{2, 101}, []any{x.Racers[0].Files, x.Racers[0].Insertions})
	require.Contains(t, x.Racers[1].CheckOutput, "it is not")
	require.False(t, x.Racers[3].OK)
	require.Nil(t, x.Racers[3].CheckCode)
	d.must("restore", x.Racers[0].Agent, "--as", "again")
	require.Equal(t, "good", strings.TrimSpace(d.sh("again", "cat main.txt")))
	require.Contains(t, d.must("races", "list"), x.ID)
	require.Contains(t, d.must("events", "--json"), `"race:changed"`)

	// Nobody passes: nobody wins.
	x, r = d.raced("true", "-n", "2")
	require.Equal(t, 1, r.code, r)
	require.Empty(t, x.Winner)
	require.True(t, x.Racers[0].Gone && x.Racers[1].Gone)
}

// TestTheFirstOfARaceEndsIt and a judge's choice counts, and a cancelled race leaves no agent.
func TestTheFirstOfARaceEndsIt(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	x, r := d.raced(`case $(hostname) in *-1) sleep 1000;; esac; echo quick > quick.txt`, "-n", "2", "--first")
	require.Zero(t, r.code, r)
	require.Equal(t, x.Racers[1].Agent, x.Winner)
	require.Equal(t, []any{api.RacerCancelled, true}, []any{x.Racers[0].State, x.Racers[0].Gone})
	d.must("agents", "remove", x.Winner, "--force")

	judge := `grep -o '"agent":"[^"]*-1"' | cut -d'"' -f4 | tee ` + d.path("judged")
	x, r = d.raced(`seq 50 > $(hostname); case $(hostname) in *-2) rm $(hostname); echo > $(hostname);; esac`, "-n", "2", "--judge", judge)
	require.Zero(t, r.code, r)
	require.Equal(t, x.Racers[0].Agent, x.Winner, "the judge's, not the smallest")
	require.Equal(t, x.Winner, strings.TrimSpace(readFile(d.path("judged"))))
	d.must("agents", "remove", x.Winner, "--force")

	// A judge that fails leaves the choice to a person.
	r = d.ctl("race", "echo > x", "-n", "2", "--judge", "echo nothing", "--", "sh", "-ec")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "polisctl races choose")
	var all struct{ Races []api.Race }
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "races", "list")), &all))
	last := all.Races[len(all.Races)-1]
	require.Equal(t, api.RaceJudging, last.State)
	d.refused(api.CodeBadRequest, "races", "choose", last.ID, "nobody")
	d.must("races", "choose", last.ID, last.Racers[1].Agent)
	d.eventually("it is over", func() bool { return d.race(last.ID).State == api.RaceEnded })
	require.Equal(t, last.Racers[1].Agent, d.race(last.ID).Winner)
	d.refused(api.CodeBadState, "races", "choose", last.ID, last.Racers[0].Agent)
	d.refused(api.CodeBadState, "races", "cancel", last.ID)

	// A task and a check that take too long are ended.
	x, r = d.raced(`case $(hostname) in *-1) sleep 1000;; esac; echo > x`, "-n", "2", "--for", "6s", "--check", "sleep 1000", "--check-for", "1s")
	require.Equal(t, 1, r.code, r)
	require.Equal(t, []any{api.RacerCancelled, "the time of the race is over", ""}, []any{x.Racers[0].State, x.Racers[0].Error, x.Winner})
	if p := x.Racers[1]; p.State == api.RacerEnded { // else the machine is too slow for it
		require.Equal(t, []any{-1, "the check did not end in 1s"}, []any{*p.CheckCode, p.CheckOutput})
	}

	x = d.begun("echo work > w; sleep 1000", "-n", "2")
	d.eventually("both work", func() bool {
		now := d.race(x.ID)
		return now.Racers[0].State == api.RacerWorking && now.Racers[1].State == api.RacerWorking
	})
	for _, p := range x.Racers {
		d.eventually(p.Agent+" has written", func() bool {
			_, err := os.Stat(filepath.Join(d.path("ws", ".polis", "worktrees"), p.Agent, "w"))
			return err == nil
		})
	}
	d.must("races", "cancel", x.ID)
	d.eventually("it is cancelled", func() bool { return d.race(x.ID).State == api.RaceCancelled })
	for _, p := range d.race(x.ID).Racers {
		require.True(t, p.Gone)
		require.NotEmpty(t, p.Trash, "its work is saved in the trash")
	}
	d.refused(api.CodeNotFound, "races", "show", "r0")
}

// TestARaceContinuesAfterACrash of polisd, and each agent has the task once.
func TestARaceContinuesAfterACrash(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	var x api.Race
	d.dieAt("race:added", func() result {
		x = d.begun(`while [ ! -e $HOME/go ]; do sleep 0.05; done; echo $(hostname) >> once.txt`, "-n", "2", "--check", "test $(wc -l < once.txt) = 1")
		d.eventually("polisd has died", func() bool {
			select {
			case err := <-d.done:
				d.done <- err
				return true
			default:
				return false
			}
		})
		return result{}
	})
	require.Empty(t, d.report().Errors)
	d.eventually("both work", func() bool {
		now := d.race(x.ID)
		return now.Racers[0].State == api.RacerWorking && now.Racers[1].State == api.RacerWorking
	})
	for _, p := range x.Racers {
		require.NoError(t, os.WriteFile(d.home(p.Agent, "go"), nil, 0o644))
	}
	d.eventually("it is over", func() bool { return d.race(x.ID).State == api.RaceEnded })
	now := d.race(x.ID)
	require.NotEmpty(t, now.Winner, now)
	for _, p := range now.Racers {
		require.NotNil(t, p.CheckCode, p)
		require.Zero(t, *p.CheckCode, p)
	}
}
