package main

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) agentTasksCmd() *cobra.Command {
	return a.agentQuery("tasks NAME", "List the tasks an agent was given", func(ctx context.Context, c *client.Client, name string) (view, error) {
		tasks, err := c.Tasks(ctx, name)
		if err != nil {
			return view{}, err
		}
		var prompts []string
		for _, t := range tasks {
			prompts = append(prompts, t.Prompt)
		}
		return view{json: map[string]any{"tasks": list(tasks)}, names: prompts, human: func(p *page) { tasksPage(p, tasks) }}, nil
	})
}

func tasksPage(p *page, tasks []api.Task) {
	rows := make([][]cell, 0, len(tasks))
	models := slices.ContainsFunc(tasks, func(t api.Task) bool { return t.Models != nil })
	for _, t := range tasks {
		took := ""
		switch {
		case t.State == api.TaskRunning && t.Began != nil:
			took = span(p.now.Sub(*t.Began))
		case t.Ended != nil && t.Began != nil:
			took = span(t.Ended.Sub(*t.Began))
		}
		result := cell{t.Result, outcomeColor(t.Outcome)}
		if t.Via != "" {
			result.text = "(" + t.Via + ")"
		}
		rows = append(rows, withModels(models, t.Models, []cell{{text: t.ID}, {text: t.Time.Local().Format(time.DateTime)}, {text: took}, result, {text: firstLine(t.Prompt, 80)}}))
	}
	p.table("no tasks", modelHeads(models, "ID", "TIME", "TOOK", "RESULT", "PROMPT"), rows)
	for _, t := range tasks {
		if t.Via == "" && cutText.MatchString(t.Result) {
			p.line("all that a result names: polisctl tasks show ID")
			break
		}
	}
	waitsPage(p, tasks)
}

// cutText matches what names the first of several things.
var cutText = regexp.MustCompile(` and [0-9]+ more$`)

// firstLine is the first line of a text, cut to so many characters.
func firstLine(text string, most int) string { return agenttext.FirstLine(text, most) }

// taskCell is an agent's last task in a list.
func taskCell(t *api.TaskBrief) cell {
	if t == nil {
		return cell{}
	}
	text := firstLine(t.Result, 40)
	if t.Queued > 0 {
		text += " +" + api.Count(t.Queued, "task")
	}
	return cell{text, outcomeColor(t.Outcome)}
}

func outcomeColor(o api.TaskOutcome) paint {
	switch o {
	case api.OutcomeMerged, api.OutcomeDone, api.OutcomeRunning:
		return green
	case api.OutcomeQueued, api.OutcomeWaiting, api.OutcomeNotMerged, api.OutcomeUncommitted:
		return yellow
	case api.OutcomeNothing, "":
		return plain
	}
	return red
}
