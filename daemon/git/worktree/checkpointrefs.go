package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/failpoint"
)

const (
	// checkpointPrefix is where the commits of checkpoints are kept, in the internal repository.
	checkpointPrefix = "refs/polis/checkpoints/"
	// maxOwnRefs bounds the refs of an agent that a checkpoint has.
	maxOwnRefs = 200
)

// Refs is where an agent's git is.
type Refs struct {
	// Head is the text of HEAD: "ref: refs/heads/NAME", or a commit if it is detached.
	Head string
	// Own are the agent's own refs by their full names, with the objects that they name. Stash is the tip
	// of its stash, "" if there is none.
	Own   map[string]string
	Stash string
}

// Commit is the object that HEAD leads to, "" if that is no ref of the agent's.
func (r Refs) Commit() string {
	if ref, symbolic := strings.CutPrefix(r.Head, "ref: "); symbolic {
		return r.Own[ref]
	}
	return r.Head
}

// Refs reads HEAD and the refs of an agent: its branch, and owned, which are those that it made.
func (w *Workspace) Refs(ctx context.Context, agent, branch string, owned []string) (Refs, error) {
	out := Refs{Own: map[string]string{}}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return out, err
	}
	defer admin.Close()
	head, err := readSmall(admin, "HEAD")
	if err != nil {
		return out, fmt.Errorf("read HEAD: %w", err)
	}
	if out.Head = strings.TrimSpace(head); !headRE.MatchString(out.Head) {
		return out, errors.New("HEAD is neither a branch nor a commit")
	}
	if ref, symbolic := strings.CutPrefix(out.Head, "ref:"); symbolic {
		out.Head = "ref: " + strings.TrimSpace(ref)
	}
	names := ownNames(branch, owned)
	if len(names) > maxOwnRefs {
		return out, fmt.Errorf("it has %d refs of its own: at most %d are in a checkpoint", len(names), maxOwnRefs)
	}
	all, err := w.Bare().Refs(ctx, names...)
	if err != nil {
		return out, err
	}
	for _, name := range names { // a name also selects what is below it
		if id, ok := all[name]; ok {
			out.Own[name] = id
		}
	}
	out.Stash, err = PrivateStash(w.layout().Private(agent))
	return out, err
}

// ownNames are the full names of an agent's refs: never the target, nor what is in no name space of agents.
func ownNames(branch string, owned []string) []string {
	var out []string
	for _, name := range append([]string{git.Branch(branch)}, owned...) {
		kind, short, ok := strings.Cut(strings.TrimPrefix(name, "refs/"), "/")
		if ok && slices.Contains([]string{"heads", "tags", "notes"}, kind) && git.CheckBranch(short) == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// KeepCommits keeps commits of an agent, with all that they reach, until DropCommits: in the internal repository,
// so that no agent's git finds them.
func (w *Workspace) KeepCommits(ctx context.Context, agent string, commits []string) error {
	if err := w.guardInternal(); err != nil {
		return err
	}
	refs := map[string]string{}
	for _, c := range commits {
		if !git.IsOID(c) {
			return fmt.Errorf("%q is no object", api.Shorten(c, 80))
		}
		refs[checkpointPrefix+agent+"/"+c] = c
	}
	if err := w.keep(ctx, agent, commits); err != nil {
		return err
	}
	failpoint.Hit("checkpoint:kept")
	return w.Internal().UpdateAll(ctx, refs, "polis: checkpoint")
}

// DropCommits ends what KeepCommits did for the commits of agents that needed does not report.
func (w *Workspace) DropCommits(ctx context.Context, needed func(agent, commit string) bool) error {
	all, err := w.Internal().Refs(ctx, strings.TrimSuffix(checkpointPrefix, "/"))
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for ref := range all {
		agent, commit, _ := strings.Cut(strings.TrimPrefix(ref, checkpointPrefix), "/")
		if !needed(agent, commit) {
			fmt.Fprintf(&in, "delete %s\x00\x00", ref)
		}
	}
	if in.Len() == 0 {
		return nil
	}
	_, err = w.Internal().Do(ctx, git.Cmd{Args: []string{"update-ref", "--no-deref", "--stdin", "-z"}, Stdin: &in})
	return err
}

// MayMove returns an error unless the refs of an agent can be moved: git is not in the middle of something in its
// worktree, and, if merged is the commit of its last merge, commit has what was merged.
func (w *Workspace) MayMove(ctx context.Context, agent, commit, merged string) error {
	if err := w.usable(agent); err != nil {
		return err
	}
	why, err := w.unfinished(agent)
	if err != nil {
		return err
	}
	if why != "" {
		return api.Errorf(api.CodeBadState, "the branch of agent %s is not moved: %s", agent, why).
			WithHint("finish or abort it in the agent; without --branch only the files are brought back")
	}
	if merged == "" || commit == "" {
		return nil
	}
	bare := w.of(agent)
	parents, err := bare.Parents(ctx, merged)
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	tip := merged // of a branch that the target was forwarded to
	if len(parents) == 2 {
		tip = parents[1]
	}
	if tip == commit {
		return nil
	}
	behind, err := bare.IsAncestor(ctx, commit, tip)
	if err != nil || !behind {
		return err
	}
	return api.Errorf(api.CodeBadState, "the branch of agent %s was merged since: at that checkpoint it did not have all that is in the target now, as merge %s", agent, merged[:12]).
		WithHint("polisctl revert %s takes the merge back; without --branch only the files are brought back", agent)
}

// MoveRefs brings HEAD, the index and the refs of an agent to where want has them. index is the content of the index;
// nil, or one that git
// does not read any more: one that has HEAD. Only refs that are the agent's own now are moved, and others stay, as does its
// stash. The agent must be still, and have its view invalidated. After an error nothing has moved.
func (w *Workspace) MoveRefs(ctx context.Context, agent, branch string, owned []string, want Refs, index func(io.Writer) error) (err error) {
	now, err := w.Refs(ctx, agent, branch, owned)
	if err != nil {
		return err
	}
	if ref, symbolic := strings.CutPrefix(want.Head, "ref: "); symbolic && now.Own[ref] == "" {
		return api.Errorf(api.CodeBadState, "HEAD of agent %s was on %s, which is no ref of its own now", agent, api.Shorten(ref, 200)).
			WithHint("make it again in the agent: git branch NAME %s", api.Shorten(want.Commit(), 12))
	}
	move := Moves(now, want)
	var ids []string
	for _, m := range move {
		if m.Ref == "HEAD" {
			continue
		}
		ids = append(ids, m.To)
		done, err := w.acquire(ctx, m.Ref)
		if err != nil {
			return err
		}
		defer done()
	}
	if len(ids) > 0 {
		err = w.Bare().Borrow(ctx, w.Bare(), w.Internal().ObjectDir(), ids...)
	}
	if err == nil && git.IsOID(want.Head) { // no other agent sees what only a detached HEAD reaches
		err = w.lend(ctx, agent, want.Head)
	}
	if err != nil {
		return fmt.Errorf("bring the commits back: %w", err)
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	const lock, head = "index.lock", "HEAD.polis"
	if err := admin.Remove(head); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a polisd that was killed
		return fmt.Errorf("write HEAD: %w", err)
	}
	if index != nil {
		if err := w.writeAdmin(admin, lock, index); err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
		defer admin.Remove(lock) //nolint:errcheck // renamed, if all went well
		if !w.completeIndex(ctx, agent, lock) {
			index = nil
		}
	}
	if err := w.writeAdmin(admin, head, func(to io.Writer) error { _, err := io.WriteString(to, want.Head+"\n"); return err }); err != nil {
		return fmt.Errorf("write HEAD: %w", err)
	}
	if err := w.moveAll(ctx, move, now.Own); err != nil {
		return errors.Join(err, admin.Remove(head))
	}
	failpoint.Hit("rewind:refs")
	if err := admin.Rename(head, "HEAD"); err != nil {
		return errors.Join(err, w.moveAll(context.WithoutCancel(ctx), Moves(want, now), want.Own))
	}
	if index != nil {
		return admin.Rename(lock, "index")
	}
	if err := admin.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if commit := want.Commit(); commit != "" {
		if _, err = w.Bare().Do(ctx, w.cmd(agent, View{}, "", "read-tree", commit)); err == nil {
			err = w.SkipMissing(ctx, agent, func(string) bool { return true }, nil)
		}
	}
	return err
}

// moveAll moves refs in one transaction, from where they are expected.
func (w *Workspace) moveAll(ctx context.Context, move []RefMove, from map[string]string) error {
	var in bytes.Buffer
	for _, m := range move {
		if m.Ref != "HEAD" {
			fmt.Fprintf(&in, "update %s\x00%s\x00%s\x00", m.Ref, m.To, from[m.Ref])
		}
	}
	if in.Len() == 0 {
		return nil
	}
	_, err := w.Bare().Do(ctx, git.Cmd{Args: []string{"update-ref", "--no-deref", "-m", "polis: rewind", "--stdin", "-z"}, Stdin: &in})
	return err
}

// RefMove is how one ref, or HEAD, is moved.
type RefMove struct{ Ref, From, To string }

// Moves returns how refs must be moved to be where want has them: those that both have.
func Moves(now, want Refs) []RefMove {
	var out []RefMove
	for ref, id := range want.Own {
		if has, ok := now.Own[ref]; ok && has != id {
			out = append(out, RefMove{ref, has, id})
		}
	}
	slices.SortFunc(out, func(a, b RefMove) int { return strings.Compare(a.Ref, b.Ref) })
	if want.Head != now.Head && want.Head != "" {
		out = append(out, RefMove{"HEAD", now.Head, want.Head})
	}
	return out
}

// unfinished returns what git is in the middle of in an agent's worktree, "" if nothing.
func (w *Workspace) unfinished(agent string) (string, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return unfinishedIn(root)
}
