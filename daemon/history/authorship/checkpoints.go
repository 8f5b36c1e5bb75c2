package authorship

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/timeline"
)

// maxVersions bounds the contents of one file that are compared, of one agent: the newest ones.
const maxVersions = 200

// wroteVersions returns the contents of a file that checkpoints have and the commit of none of them: what was changed again
// since, or was never committed.
func (f *Finder) wroteVersions(ctx context.Context, req api.WhoRequest) (out []api.WhoUse, notes []string, err error) {
	if f.Checkpoints == nil {
		return nil, nil, nil
	}
	agents := []string{req.Agent}
	if req.Agent == "" {
		if agents, err = f.Checkpoints.Agents(ctx); err != nil {
			return nil, nil, err
		}
	}
	tasks, err := f.Tasks(maxWho)
	if err != nil {
		return nil, nil, err
	}
	for _, agent := range agents {
		all, err := f.Checkpoints.Versions(ctx, agent, req.Path)
		if err != nil {
			notes = append(notes, f.unread(agent, err))
			continue
		}
		if n := len(all) - maxVersions; n > 0 {
			all = all[n:]
			notes = append(notes, fmt.Sprintf("of agent %s the last %d contents in checkpoints are compared", agent, maxVersions))
		}
		known := map[string]string{} // the content of a commit
		seen := map[string]bool{}
		for _, v := range all {
			again := v.Rewound && seen[v.Hash]
			seen[v.Hash] = true
			if v.Time.Before(req.Since) {
				continue
			}
			hash, err := f.committedHash(ctx, v.Commit, req.Path, known)
			if err != nil {
				notes = append(notes, f.unread(agent, err))
				break
			}
			if v.Hash == hash {
				continue
			}
			op := "changed"
			switch {
			case v.Hash == "":
				op = "removed"
			case again:
				op = "restored"
			}
			out = append(out, f.checkpointUse(v, op, api.EncodePath(req.Path), tasks))
		}
	}
	return out, notes, nil
}

// committedHash returns the SHA-256 of a file of a commit; "" if it has none.
func (f *Finder) committedHash(ctx context.Context, commit, path string, known map[string]string) (string, error) {
	if commit == "" {
		return "", nil
	}
	hash, ok := known[commit]
	if !ok {
		text, there, err := f.Git.Committed(ctx, commit, path)
		if err != nil {
			return "", err
		}
		if there {
			sum := sha256.Sum256(text)
			hash = hex.EncodeToString(sum[:])
		}
		known[commit] = hash
	}
	return hash, nil
}

func (f *Finder) unread(agent string, err error) string {
	return fmt.Sprintf("the checkpoints of agent %s are not searched: %s", agent, api.Shorten(err.Error(), 300))
}

func (f *Finder) checkpointUse(v timeline.Version, op, path string, tasks []api.Task) api.WhoUse {
	c := &api.WhoCheckpoint{ID: v.ID, Hash: v.Hash}
	if !v.After.IsZero() {
		c.After = &v.After
	}
	u := api.WhoUse{Source: api.UseCheckpoint, Agent: v.Agent, Checkpoint: c, Open: api.Open{Time: v.Time, Op: op, Write: true, Path: path}}
	u.Task = taskIn(tasks, v.Agent, v.After, v.Time)
	return u
}

// taskIn returns the only task of an agent that ran between two times; "" if there is none or several.
func taskIn(tasks []api.Task, agent string, after, until time.Time) (id string) {
	for _, t := range tasks {
		began := t.Time
		if t.Began != nil {
			began = *t.Began
		}
		if t.Agent != agent || t.ID == "" || t.Via != "" || began.After(until) || t.Ended != nil && t.Ended.Before(after) {
			continue
		}
		if id != "" {
			return ""
		}
		id = t.ID
	}
	return id
}

// versionText returns the content of a version.
func (f *Finder) versionText(ctx context.Context, v timeline.Version) ([]byte, error) {
	switch {
	case v.Hash == "":
		return nil, nil
	case v.Size > maxCompared:
		return nil, api.Errorf(api.CodeTooLarge, "the file has more than %d MiB in checkpoint %s", maxCompared>>20, v.ID)
	}
	return f.Checkpoints.Text(ctx, v.Hash, maxCompared)
}

// maxCompared bounds a content that is compared line by line, in bytes.
const maxCompared = 4 << 20

func texts(lines []api.BlameLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
	}
	return out
}

// span is the time in which a line was written: after one checkpoint that does not have it, and until the next.
type span struct {
	after, until time.Time
	first        *timeline.Version // the first that has it; nil: none
	oldest       bool              // there is no older one to compare with
}

// since returns when a line of a file was written, as far as an agent's checkpoints until a time have it. lines is the file
// with the line at the index at.
func (f *Finder) since(ctx context.Context, agent, path string, lines []string, at int, until time.Time) (s span, notes []string, err error) {
	s.until, s.oldest = until, true
	if f.Checkpoints == nil {
		return s, nil, nil
	}
	all, err := f.Checkpoints.Versions(ctx, agent, path)
	if err != nil {
		return s, []string{f.unread(agent, err)}, nil
	}
	all = slices.DeleteFunc(all, func(v timeline.Version) bool { return v.Time.After(until) })
	if n := len(all) - maxVersions; n > 0 {
		all = all[n:]
	}
	for i, v := range slices.Backward(all) {
		text, err := f.versionText(ctx, v)
		if err != nil {
			return s, []string{f.unread(agent, err)}, nil
		}
		older := texts(Uncommitted(string(text)))
		from := follow(lines, older, at)
		if from < 0 {
			if s.after = v.Last; s.first != nil {
				s.after = s.first.After
			} else if v.Last.After(until) {
				s.after = v.Time
			}
			s.oldest = false
			return s, nil, nil
		}
		lines, at = older, from
		s.first, s.until = &all[i], v.Time
	}
	return s, nil, nil
}
