package pullrequest

import (
	"context"
	"fmt"
	"strings"

	"polis/daemon/api"
)

const (
	// maxSearched is how many commits of a branch are compared with those that tasks ended at.
	maxSearched = 10000
	// maxTasks is how many tasks a description quotes, the last ones.
	maxTasks = 20
)

// tasks returns the prompts of the tasks that made the commits.
func (p *pull) tasks(ctx context.Context) ([]string, error) {
	all, err := p.Tasks(p.agent.Name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	out, err := p.Git.Bare().Run(ctx, "rev-list", fmt.Sprintf("--max-count=%d", maxSearched), p.push.Commit, "^"+p.base)
	if err != nil {
		return nil, api.Errorf(api.CodeRepoCorrupt, "read the commits of %s: %w", p.agent.Branch, err)
	}
	own := map[string]bool{}
	for _, id := range strings.Fields(string(out)) {
		own[id] = true
	}
	return madeBy(all, own, p.push.Commit), nil
}

// madeBy returns the prompts of those tasks that made commits of a branch, the oldest first. own are the commits of the
// branch alone, tip is the newest one. A commit that was amended or moved since is not known by its name: then it is the
// last task that made one which was not merged.
func madeBy(all []api.Task, own map[string]bool, tip string) (prompts []string) {
	last := ""
	for _, t := range all {
		switch {
		case t.Via != "":
		case t.State == api.TaskRunning && t.Base != "" && t.Base != tip, t.Commits > 0 && own[t.Head]:
			prompts = append(prompts, t.Prompt)
		case t.Commits > 0 && t.Outcome != api.OutcomeMerged:
			last = t.Prompt
		}
	}
	if len(prompts) == 0 && last != "" {
		return []string{last}
	}
	return prompts[max(len(prompts)-maxTasks, 0):]
}
