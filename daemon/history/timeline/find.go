package timeline

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// At returns the snapshot of an agent's that a person means by to: an ID; a duration, for the state
// so long ago; "before task N", "before merge N", "before tool NAME" or "before rebase", for the last one
// of these; or "" for the last checkpoint.
func (t *Timeline) At(ctx context.Context, agent, to string) (api.Snapshot, error) {
	all, err := t.List(ctx, agent)
	if err != nil {
		return api.Snapshot{}, err
	}
	return t.at(all, agent, to)
}

// at is At among all, which are in the order of their times.
func (t *Timeline) at(all []api.Snapshot, agent, to string) (api.Snapshot, error) {
	none := func(format string, args ...any) (api.Snapshot, error) {
		return api.Snapshot{}, api.Errorf(api.CodeNotFound, format, args...).WithHint("polisctl timeline %s lists the checkpoints", agent)
	}
	all = slices.DeleteFunc(all, func(s api.Snapshot) bool { return s.Covers != api.SnapshotFiles && s.ID != to })
	if len(all) == 0 {
		return none("agent %s has no checkpoint", agent)
	}
	if to == "" {
		return all[len(all)-1], nil
	}
	if rest, ok := strings.CutPrefix(to, "before "); ok {
		what, which, _ := strings.Cut(rest, " ")
		for _, s := range slices.Backward(all) {
			if s.Why == what && (which == "" || before(s) == strings.TrimPrefix(which, agent+".")) {
				return s, nil
			}
		}
		return none("agent %s has no checkpoint from before %s", agent, api.Shorten(rest, 80))
	}
	if ago, err := time.ParseDuration(to); err == nil && ago >= 0 {
		then := t.Now().Add(-ago)
		for _, s := range slices.Backward(all) {
			if !s.Time.After(then) {
				return s, nil
			}
		}
		return none("agent %s has no checkpoint that is %s old; the oldest is of %s", agent, ago, all[0].Time.Local().Format(time.DateTime))
	}
	for _, s := range all {
		if s.ID == to {
			return s, nil
		}
	}
	return none("agent %s has no checkpoint %q", agent, api.Shorten(to, 50))
}

// DiffAt is Diff of the states that a person means: how the one that to names, or the agent's files now if it
// is "", differ from the one that from names.
func (t *Timeline) DiffAt(ctx context.Context, agent, from, to string) (api.SnapshotDiff, error) {
	a, err := t.At(ctx, agent, from)
	if err != nil {
		return api.SnapshotDiff{}, err
	}
	if to == "" {
		return t.Diff(ctx, a.ID, "")
	}
	b, err := t.At(ctx, agent, to)
	if err != nil {
		return api.SnapshotDiff{}, err
	}
	return t.Diff(ctx, a.ID, b.ID)
}

// before returns which task, merge or tool a checkpoint was made before.
func before(s api.Snapshot) string {
	if s.Why == api.SnapshotByTask {
		return strconv.Itoa(s.Task)
	}
	return s.For
}
