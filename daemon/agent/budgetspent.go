package agent

import (
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/history/task"
)

// budgetSpent ends the work of an agent whose model budget is spent, where its role has on_budget = "stop": its
// task, or the agent if there is no task or the budget is that of the day. An event of what is over
// already ends nothing. What is in the worktree stays.
func (m *Manager) budgetSpent(a *Agent, e api.Event) {
	id, _ := e.Data["task"].(string)
	bound, _ := e.Data["bound"].(string)
	text, _ := e.Data["text"].(string)
	generation, _ := e.Data["generation"].(float64)
	ctx, cancel := context.WithTimeout(m.ctx, raiseTime)
	defer cancel()
	if err := a.op.Acquire(ctx); err != nil {
		m.Log.Error("agent with a spent model budget not stopped", "agent", a.Name(), "err", err)
		return
	}
	defer a.op.Unlock()
	m.mu.Lock()
	same := m.agents[a.Name()] == a && a.up && !a.foreign && a.Kept.Generation == uint64(generation)
	m.mu.Unlock()
	working := id != "" && m.works(a, id)
	if !same || id != "" && !working || id == "" && m.works(a, "") {
		return
	}
	m.Log.Info("model budget spent: work ended", "agent", a.Name(), "task", id, "bound", bound, "text", text)
	if working {
		m.endTask(a, task.End{By: api.EndBudget, Message: "its model budget was spent: " + api.Shorten(text, 200)})
	}
	var err error
	if working && strings.HasPrefix(bound, "task_") {
		sh := m.Shims.Dial(a.Name())
		defer sh.Close()
		err = sh.StopMain(ctx, cancelGrace)
	} else {
		err = m.stop(ctx, a)
	}
	if err != nil {
		m.Log.Error("agent with a spent model budget not stopped", "agent", a.Name(), "err", err)
	}
}
