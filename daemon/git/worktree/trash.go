package worktree

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// describe is the message of a trash commit; parseMessage reads it back.
func describe(t TrashRef, index string) string {
	return fmt.Sprintf("polis: work of %s saved in the trash\n\nBranch: %s\nHead: %s\nIndex: %s\n%s", t.Agent, t.Branch, t.Head, index, refLines(t.Refs))
}

// parseMessage reads the fields of a trash commit's message.
func parseMessage(message string) (branch, head, index string, err error) {
	for line := range strings.Lines(message) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "Branch":
			branch = value
		case "Head":
			head = value
		case "Index":
			index = value
		}
	}
	if !strings.HasPrefix(message, "polis: work of ") || head != "" && !git.IsOID(head) || index != "" && !git.IsOID(index) {
		return "", "", "", errors.New("it is not a commit made by Save")
	}
	return branch, head, index, nil
}

// Trash lists saved work, newest first; of one agent, or of all if empty.
func (w *Workspace) Trash(ctx context.Context, agent string) ([]TrashRef, error) {
	prefix := strings.TrimSuffix(trashPrefix, "/")
	if agent != "" {
		if err := api.CheckName(agent); err != nil {
			return nil, err
		}
		prefix = trashPrefix + agent
	}
	if err := w.guardInternal(); err != nil {
		return nil, err
	}
	refs, err := w.Internal().Refs(ctx, prefix)
	if err != nil {
		return nil, api.Errorf(api.CodeRepoCorrupt, "list the trash: %w", err)
	}
	var list []TrashRef
	for ref := range refs {
		t, _, err := w.trashed(ctx, ref)
		if err != nil {
			w.cfg.Log.Warn("ref in the trash skipped", "op", "trash", "path", ref, "err", err)
			continue
		}
		list = append(list, t)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Time.After(list[j].Time) })
	return list, nil
}

// trashed reads one trash ref; the second result is the commit of its index.
func (w *Workspace) trashed(ctx context.Context, ref string) (TrashRef, string, error) {
	rest, ok := strings.CutPrefix(ref, trashPrefix)
	agent, stamp, two := strings.Cut(rest, "/")
	if !ok || !two || api.CheckName(agent) != nil {
		return TrashRef{}, "", api.Errorf(api.CodeNotFound, "%q is not a ref of the trash", api.Shorten(ref, 200)).
			WithHint("their form is %sNAME/TIME", trashPrefix)
	}
	when, err := time.Parse(stampFormat, stamp)
	if err != nil {
		return TrashRef{}, "", api.Errorf(api.CodeNotFound, "%q is not a ref of the trash", api.Shorten(ref, 200)).
			WithHint("their form is %sNAME/TIME", trashPrefix)
	}
	internal := w.Internal()
	commit, err := internal.Ref(ctx, ref)
	if errors.Is(err, git.ErrNotFound) {
		return TrashRef{}, "", api.Errorf(api.CodeNotFound, "the trash has no ref %s", ref)
	}
	if err != nil {
		return TrashRef{}, "", err
	}
	message, err := internal.Message(ctx, commit)
	if err != nil {
		return TrashRef{}, "", err
	}
	t := TrashRef{Ref: ref, Commit: commit, Agent: agent, Time: when}
	var index string
	if t.Branch, t.Head, index, err = parseMessage(message); err != nil {
		return TrashRef{}, "", api.Errorf(api.CodeNotFound, "%s: %w", ref, err)
	}
	t.Refs = savedRefs(message)
	return t, index, nil
}
