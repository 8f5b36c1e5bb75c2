package authorship

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git/worktree"
	"polis/daemon/history/receipt"
	"polis/daemon/history/timeline"
)

const (
	// whoLimit is how many uses an answer has, unless the request names another number up to maxWho.
	whoLimit, maxWho = 1000, 10_000
	// maxTouched bounds the commits of one branch that changed a path, and the tasks whose commits are found.
	maxTouched = 200
)

// Git is what a Finder needs of the repository and the worktrees.
type Git interface {
	Blame(ctx context.Context, agent, path string) (worktree.Blamed, error)
	History(ctx context.Context, agent string, limit int, each func(string)) (target, head string, err error)
	Touched(ctx context.Context, agent, path string, since time.Time, limit int) ([]string, error)
	Differs(ctx context.Context, agent, path string) (bool, error)
	Head(ctx context.Context, agent string) (string, error)
	// BlameAt, Committed, Beyond and TouchedAt are about commits, also those of no agent.
	BlameAt(ctx context.Context, commit, path string) (worktree.Blamed, error)
	Committed(ctx context.Context, commit, path string) ([]byte, bool, error)
	Beyond(ctx context.Context, commits []string, limit int, each func(string)) error
	TouchedAt(ctx context.Context, commits []string, path string, since time.Time, limit int) ([]string, error)
}

// Checkpoints are the snapshots of a workspace.
type Checkpoints interface {
	Agents(ctx context.Context) ([]string, error)
	Versions(ctx context.Context, agent, path string) ([]timeline.Version, error)
	Describe(ctx context.Context, id string) (api.Snapshot, error)
	Text(ctx context.Context, hash string, limit int64) ([]byte, error)
}

// Finder finds who wrote and read files of a workspace, for one request. Set the fields, then use it.
type Finder struct {
	Workspace string
	Git       Git
	Receipts  *receipt.Store
	// Checkpoints may be nil: there are none.
	Checkpoints Checkpoints
	// Removed returns the agents that were removed, oldest first; nil: none.
	Removed func() []Former
	// Tasks returns the last tasks of the workspace, and Agents its agents.
	Tasks  func(limit int) ([]api.Task, error)
	Agents func(ctx context.Context) []api.Agent
	Now    func() time.Time

	heads  []Former // of all agents, once they were read
	beyond History  // what they have and the target has not
}

// CheckPath returns an error for a path that is not below a worktree.
func CheckPath(file string) error {
	if file == "" || len(file) > 4096 || strings.Contains(file, "\x00") || path.Clean(file) != file || path.IsAbs(file) || file == "." || file == ".." || strings.HasPrefix(file, "../") {
		return api.Errorf(api.CodeBadRequest, "%q is not a path below the worktree", api.Shorten(file, 200))
	}
	return nil
}

// Blame returns which commit, agent and task each line of a file is of.
func (f *Finder) Blame(ctx context.Context, agent, file string) (out api.Blame, err error) {
	if err := CheckPath(file); err != nil {
		return out, err
	}
	record := Record{}
	if err := f.readRecord(ctx, &record, ""); err != nil {
		return out, err
	}
	return f.blame(ctx, agent, file, record.Merges)
}

func (f *Finder) blame(ctx context.Context, agent, file string, merges map[string]Merge) (out api.Blame, err error) {
	g, err := f.Git.Blame(ctx, agent, file)
	if err != nil {
		return out, err
	}
	out = api.Blame{Workspace: f.Workspace, Agent: agent, Path: api.EncodePath(file), Head: g.Head, Commits: map[string]api.BlameCommit{}}
	if g.Content != nil {
		out.Lines = Uncommitted(string(g.Content))
	} else if out.Lines, out.Commits, err = ParseBlame(string(g.Porcelain)); err != nil {
		return out, api.Errorf(api.CodeWorktreeFailed, "%w", err)
	}
	a, err := f.attribution(ctx, agent, merges)
	if err != nil {
		return out, err
	}
	for id, c := range out.Commits {
		c.Agent, c.Tasks, c.Merge = a.Of(id)
		out.Commits[id] = c
	}
	return out, nil
}

// attribution reads the history of the target branch, and of an agent that is not "".
func (f *Finder) attribution(ctx context.Context, agent string, merges map[string]Merge) (*Attribution, error) {
	h := History{}
	target, head, err := f.Git.History(ctx, agent, MaxHistory, h.Add)
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "read the history: %w", err)
	}
	a := &Attribution{Introduced: h.Introduced(target), Merges: merges, Own: map[string]string{}, Tasks: map[string]string{}}
	claims, err := f.claims(ctx, h, target, agent, head)
	if err != nil {
		return nil, err
	}
	tasks, err := f.Tasks(maxWho)
	if err != nil {
		return nil, err
	}
	known := tasks[:0]
	for _, t := range tasks {
		if t.ID != "" && t.Head != "" && t.Base != "" && t.Head != t.Base && len(h[t.Head]) > 0 && h[t.Base] != nil {
			known = append(known, t)
		}
	}
	made := map[string]map[string]string{}                    // the tasks of each agent in which a commit may have been made
	for _, t := range known[max(0, len(known)-maxTouched):] { // each walks the history
		h.Between(t.Base, t.Head, func(id string) {
			if made[id] == nil {
				made[id] = map[string]string{}
			}
			made[id][t.Agent] = t.ID
		})
	}
	for id, all := range claims {
		a.Own[id] = owner(all, made[id])
	}
	for id, tasks := range made {
		if t := tasks[cmp.Or(a.Merges[a.Introduced[id]].Agent, a.Own[id])]; t != "" {
			a.Tasks[id] = t
		}
	}
	return a, nil
}

// readRecord reads the receipts of a workspace, of all agents if agent is "".
func (f *Finder) readRecord(ctx context.Context, p *Record, agent string) error {
	broken, err := f.Receipts.Each(ctx, receipt.Only(agent), p.Visit)
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the receipts: %w", err)
	}
	p.Missed = p.Missed || broken != nil
	return nil
}
