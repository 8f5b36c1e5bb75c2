package authorship

import (
	"context"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/timeline"
)

// wroteLine finds who wrote a line, and restricts p to opens that can have written it.
func (f *Finder) wroteLine(ctx context.Context, req api.WhoRequest, p *Record, out *api.Who) ([]api.WhoUse, error) {
	merges := Record{}
	if err := f.readRecord(ctx, &merges, ""); err != nil {
		return nil, err
	}
	if req.Checkpoint != "" {
		return f.wroteOldLine(ctx, req, merges.Merges, p, out)
	}
	blame, err := f.blame(ctx, req.Agent, req.Path, merges.Merges)
	if err != nil {
		return nil, err
	}
	if err := pick(req, blame.Lines, out); err != nil {
		return nil, err
	}
	if c, ok := blame.Commits[out.Line.Commit]; ok {
		return f.committedLine(ctx, req, c, p, out)
	}
	// It is in no commit: the agent wrote it since its last one.
	use := api.WhoUse{Source: api.UseFiles, Agent: req.Agent, Open: api.Open{Time: f.Now().UTC(), Op: "differs", Write: true, Path: out.Path}}
	more, err := f.spanOf(ctx, req.Agent, req.Path, texts(blame.Lines), req.Line-1, f.Now(), p, out)
	return append(more, use), err
}

// pick sets the line of the answer.
func pick(req api.WhoRequest, lines []api.BlameLine, out *api.Who) error {
	if req.Line > len(lines) {
		return api.Errorf(api.CodeBadRequest, "%q has %s, and no line %d", api.Shorten(req.Path, 200), api.Count(len(lines), "line"), req.Line)
	}
	out.Line = &lines[req.Line-1]
	return nil
}

// committedLine is wroteLine of a line that a commit has.
func (f *Finder) committedLine(ctx context.Context, req api.WhoRequest, c api.BlameCommit, p *Record, out *api.Who) ([]api.WhoUse, error) {
	p.Agent, p.Until = c.Agent, c.Time.Add(time.Second) // a commit has whole seconds
	if c.Agent == "" {
		p.Path = "" // a person's
		return []api.WhoUse{commitUse(c, out.Path)}, nil
	}
	text, there, err := f.Git.Committed(ctx, c.ID, req.Path)
	if err != nil || !there { // it had another name then
		return []api.WhoUse{commitUse(c, out.Path)}, err
	}
	lines := texts(Uncommitted(string(text)))
	at := nearest(lines, out.Line.Text, req.Line-1)
	if at < 0 {
		return []api.WhoUse{commitUse(c, out.Path)}, nil
	}
	more, err := f.spanOf(ctx, c.Agent, req.Path, lines, at, p.Until, p, out)
	return append(more, commitUse(c, out.Path)), err
}

// nearest returns the index of the line with a text that is nearest to another index; -1 for none.
func nearest(lines []string, text string, to int) int {
	best := -1
	for i, l := range lines {
		if l == text && (best < 0 || max(i-to, to-i) < max(best-to, to-best)) {
			best = i
		}
	}
	return best
}

// wroteOldLine is wroteLine of a line that the file had in a checkpoint.
func (f *Finder) wroteOldLine(ctx context.Context, req api.WhoRequest, merges map[string]Merge, p *Record, out *api.Who) ([]api.WhoUse, error) {
	v, lines, err := f.atCheckpoint(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := pick(req, lines, out); err != nil {
		return nil, err
	}
	all, at := texts(lines), req.Line-1
	if v.Commit != "" {
		text, there, err := f.Git.Committed(ctx, v.Commit, req.Path)
		if err != nil {
			return nil, err
		}
		if from := follow(all, texts(Uncommitted(string(text))), at); there && from >= 0 {
			c, err := f.commitOf(ctx, v.Commit, req.Path, from, merges)
			if err != nil {
				return nil, err
			}
			out.Line.Commit = c.ID
			return f.committedLine(ctx, req, c, p, out)
		}
	}
	p.Agent = v.Agent
	return f.spanOf(ctx, v.Agent, req.Path, all, at, v.Time, p, out)
}

// atCheckpoint returns what a checkpoint has at the path of a request.
func (f *Finder) atCheckpoint(ctx context.Context, req api.WhoRequest) (v timeline.Version, lines []api.BlameLine, err error) {
	if f.Checkpoints == nil {
		return v, nil, timeline.NotFound(req.Checkpoint)
	}
	s, err := f.Checkpoints.Describe(ctx, req.Checkpoint)
	if err != nil {
		return v, nil, err
	}
	if req.Agent != "" && s.Agent != req.Agent {
		return v, nil, api.Errorf(api.CodeBadRequest, "checkpoint %s is of agent %s", s.ID, s.Agent)
	}
	all, err := f.Checkpoints.Versions(ctx, s.Agent, req.Path)
	if err != nil {
		return v, nil, err
	}
	i := len(all) - 1
	for i >= 0 && all[i].Time.After(s.Time) {
		i--
	}
	if i < 0 || all[i].Hash == "" {
		return v, nil, api.Errorf(api.CodeNotFound, "checkpoint %s has no file %q", s.ID, api.Shorten(req.Path, 200))
	}
	b, err := f.versionText(ctx, all[i])
	v = all[i]
	v.Snapshot = s
	return v, Uncommitted(string(b)), err
}

// commitOf returns the commit of a line of a file of a commit.
func (f *Finder) commitOf(ctx context.Context, commit, path string, at int, merges map[string]Merge) (c api.BlameCommit, err error) {
	g, err := f.Git.BlameAt(ctx, commit, path)
	if err != nil {
		return c, err
	}
	lines, commits, err := ParseBlame(string(g.Porcelain))
	if err != nil || at >= len(lines) {
		return c, api.Errorf(api.CodeWorktreeFailed, "blame %q in commit %s: line %d is missing: %w", api.Shorten(path, 200), commit, at+1, err)
	}
	a, err := f.attribution(ctx, "", merges)
	if err != nil {
		return c, err
	}
	c = commits[lines[at].Commit]
	c.Agent, c.Tasks, c.Merge = a.Of(c.ID)
	return c, nil
}

// spanOf restricts p to the time in which a line was written, as far as an agent's checkpoints have it, and returns the first
// checkpoint with it.
func (f *Finder) spanOf(ctx context.Context, agent, path string, lines []string, at int, until time.Time, p *Record, out *api.Who) ([]api.WhoUse, error) {
	p.Until = until
	s, notes, err := f.since(ctx, agent, path, lines, at, until)
	out.Notes = append(out.Notes, notes...)
	if err != nil {
		return nil, err
	}
	p.Until, p.after = s.until, s.after
	if s.first == nil {
		return nil, nil
	}
	if s.oldest {
		out.Notes = append(out.Notes, fmt.Sprintf("the oldest checkpoint of agent %s has the line already: it may have been written long before", agent))
	}
	tasks, err := f.Tasks(maxWho)
	if err != nil {
		return nil, err
	}
	return []api.WhoUse{f.checkpointUse(*s.first, "changed", api.EncodePath(path), tasks)}, nil
}

// narrow leaves the opens that came after the last checkpoint without the line. If there are none, the process had the
// file open since before: the newest ones are left.
func (p *Record) narrow() (note string) {
	if p.after.IsZero() || len(p.Uses) == 0 {
		return ""
	}
	const few = 5
	p.Trim()
	first := slices.IndexFunc(p.Uses, func(u api.WhoUse) bool { return !lastTime(u.Open).Before(p.after) })
	if first < 0 {
		p.Uses = p.Uses[max(0, len(p.Uses)-few):]
		return "no open was recorded between the checkpoints: the file was open since before, and the last opens before are listed"
	}
	p.Uses = slices.DeleteFunc(p.Uses, func(u api.WhoUse) bool { return lastTime(u.Open).Before(p.after) })
	return ""
}

func lastTime(o api.Open) time.Time {
	if o.Last != nil {
		return *o.Last
	}
	return o.Time
}
