package authorship

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// Who returns who read or wrote a path.
func (f *Finder) Who(ctx context.Context, req api.WhoRequest) (out api.Who, err error) {
	if err := CheckPath(req.Path); err != nil {
		return out, err
	}
	if req.Line > 0 && !req.Write {
		return out, api.Errorf(api.CodeBadRequest, "a line is written, and not read: opens are of whole files")
	}
	if req.Checkpoint != "" && req.Line == 0 {
		return out, api.Errorf(api.CodeBadRequest, "a checkpoint is for a line: who wrote PATH:LINE")
	}
	out = api.Who{Workspace: f.Workspace, Path: api.EncodePath(req.Path)}
	p := &Record{Path: req.Path, Write: req.Write, Agent: req.Agent, Since: req.Since, Max: whoLimit}
	if req.Limit > 0 {
		p.Max = min(req.Limit, maxWho)
	}
	var commits []api.WhoUse
	if req.Line > 0 {
		if commits, err = f.wroteLine(ctx, req, p, &out); err != nil {
			return out, err
		}
	}
	if err := f.readRecord(ctx, p, p.Agent); err != nil {
		return out, err
	}
	if note := p.narrow(); note != "" {
		out.Notes = append(out.Notes, note)
	}
	if req.Write && req.Line == 0 {
		if commits, err = f.wroteCommits(ctx, req, p.Merges); err != nil {
			return out, err
		}
		versions, notes, err := f.wroteVersions(ctx, req)
		if err != nil {
			return out, err
		}
		commits, out.Notes = append(commits, versions...), append(out.Notes, notes...)
	}
	p.Uses = append(p.Uses, commits...)
	p.Trim()
	out.Uses, out.More, out.Notes = slices.Concat([]api.WhoUse{}, p.Uses), p.More, append(out.Notes, f.unrecorded(ctx, req, p)...)
	return out, nil
}

func commitUse(c api.BlameCommit, path string) api.WhoUse {
	u := api.WhoUse{Source: api.UseCommit, Agent: c.Agent, Commit: &c, Open: api.Open{Time: c.Time, Op: "commit", Write: true, Path: path}}
	if len(c.Tasks) == 1 {
		u.Task = c.Tasks[0]
	}
	return u
}

// wroteCommits returns the commits that changed a path, and the agents whose files differ there now.
func (f *Finder) wroteCommits(ctx context.Context, req api.WhoRequest, merges map[string]Merge) (out []api.WhoUse, err error) {
	agents := []string{req.Agent}
	if req.Agent == "" {
		agents = agents[:0]
		for _, a := range f.Agents(ctx) {
			agents = append(agents, a.Name)
		}
	}
	text := api.EncodePath(req.Path)
	found := map[string]bool{}
	var all *Attribution // without what only one agent has
	add := func(agent string, lines []string) error {
		if len(lines) == 0 {
			return nil
		}
		var err error
		if all == nil {
			if all, err = f.attribution(ctx, "", merges); err != nil {
				return err
			}
		}
		a := all
		if agent != "" && !all.knows(lines) {
			if a, err = f.attribution(ctx, agent, merges); err != nil {
				return err
			}
		}
		for _, line := range lines {
			v := strings.SplitN(line, "\n", 4)
			if len(v) < 4 {
				continue
			}
			sec, err := strconv.ParseInt(v[1], 10, 64)
			if err != nil || sec < 0 || sec > 1<<37 {
				sec = 0
			}
			c := api.BlameCommit{ID: v[0], Time: time.Unix(sec, 0).UTC(), Author: Text(v[2]), Summary: Text(v[3])}
			if found[c.ID] { // several agents have it
				continue
			}
			found[c.ID] = true
			if c.Agent, c.Tasks, c.Merge = a.Of(c.ID); req.Agent == "" || c.Agent == req.Agent {
				out = append(out, commitUse(c, text))
			}
		}
		return nil
	}
	lines, err := f.Git.Touched(ctx, "", req.Path, req.Since, maxTouched)
	if err == nil {
		err = add("", lines)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range agents {
		lines, err := f.Git.Touched(ctx, name, req.Path, req.Since, maxTouched)
		if err == nil {
			err = add(name, lines)
		}
		var differs bool
		if err == nil {
			differs, err = f.Git.Differs(ctx, name, req.Path)
		}
		switch {
		case api.CodeOf(err) == api.CodeWorktreeMissing:
		case err != nil:
			return nil, err
		case differs:
			out = append(out, api.WhoUse{Source: api.UseFiles, Agent: name, Open: api.Open{Time: f.Now().UTC(), Op: "differs", Write: true, Path: text}})
		}
	}
	if lines, err = f.Git.TouchedAt(ctx, headsOf(f.removed()), req.Path, req.Since, maxTouched); err == nil {
		err = add("", lines)
	}
	return out, err
}

// unrecorded says what an answer cannot contain.
func (f *Finder) unrecorded(ctx context.Context, req api.WhoRequest, p *Record) (notes []string) {
	var off []string
	for _, a := range f.Agents(ctx) {
		if a.Audit == "" && (req.Agent == "" || a.Name == req.Agent) {
			off = append(off, a.Name)
		}
	}
	if names := api.Shorten(strings.Join(off, ", "), 200); len(off) > 0 && req.Write {
		notes = append(notes, fmt.Sprintf("processes are recorded with audit = \"full\" only, and are not of %s now", names))
	} else if len(off) > 0 {
		notes = append(notes, fmt.Sprintf("reads are recorded with audit = \"full\" only, and are not of %s now", names))
	}
	if p.Missed {
		notes = append(notes, "receipts of opens are missing: polisctl receipts show --type receipts:missed")
	}
	return notes
}
