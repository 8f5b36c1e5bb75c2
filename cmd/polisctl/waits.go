package main

import (
	"fmt"

	"polis/daemon/api"
)

// waitLine is what the queued tasks of an agent wait for; "" if none waits for anything.
func waitLine(agent string, queued int, w *api.TaskWait) string {
	if w == nil || queued == 0 {
		return ""
	}
	verb := "waits"
	if queued != 1 {
		verb = "wait"
	}
	return fmt.Sprintf("%s: %s %s: %s", agent, api.Count(queued, "task"), verb, w.Text())
}

// turnText says of a queued task what it waits for.
func turnText(t api.Task) string {
	if t.Waits == nil {
		return "task " + t.ID + " waits for its turn"
	}
	return "task " + t.ID + " waits: " + t.Waits.Text()
}

// agentWaits is waitLine of an agent in a list.
func agentWaits(g api.Agent) string {
	if g.Task == nil {
		return ""
	}
	return waitLine(g.Name, g.Task.Queued, g.Task.Waits)
}

// waitsPage prints below a list of tasks what the first of each agent waits for, and what can be done about
// lost ones.
func waitsPage(p *page, tasks []api.Task) {
	said := map[string]bool{}
	lost := 0
	for _, t := range tasks {
		if t.Interrupted != "" {
			lost++
		}
		if t.Waits != nil && !said[t.Agent] {
			said[t.Agent] = true
			p.line("%s waits: %s", t.ID, t.Waits.Text())
		}
	}
	if lost > 0 {
		p.line("%s lost: polisctl tasks retry --lost does all lost tasks again, polisctl tasks cancel ID dismisses one", wasOf(lost))
	}
}

func wasOf(n int) string {
	if n == 1 {
		return "1 task was"
	}
	return api.Count(n, "task") + " were"
}
