package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"polis/daemon/git"
)

// privateWork are the refs that only an agent has, without its stash.
type privateWork struct {
	refs map[string]string
	// commits are the commits among the objects, others the number of refs whose objects are no commits.
	commits []string
	others  []string
}

func (w *Workspace) privateWork(ctx context.Context, agent string) (p privateWork, err error) {
	p.refs, err = PrivateRefs(w.layout().Private(agent))
	if errors.Is(err, errManyRefs) {
		return privateWork{refs: map[string]string{"refs": ""}, others: []string{"refs"}}, nil
	}
	if err != nil {
		return p, err
	}
	delete(p.refs, stashRef)
	names := slices.Sorted(maps.Keys(p.refs))
	revs := make([]string, 0, 2*len(names))
	for _, name := range names {
		revs = append(revs, p.refs[name]+"^{commit}", p.refs[name])
	}
	if len(names) == 0 {
		return p, nil
	}
	ids, err := w.of(agent).Resolve(ctx, revs...)
	if err != nil {
		return p, err
	}
	for i, name := range names {
		switch commit, object := ids[2*i], ids[2*i+1]; {
		case object == "": // it leads to nothing
			delete(p.refs, name)
		case commit == object:
			p.commits = append(p.commits, commit)
		default:
			p.others = append(p.others, name)
		}
	}
	p.commits, err = w.whole(ctx, agent, p.commits)
	return p, err
}

// countAll counts what the target lacks of all of an agent's work, and notes the private refs among it.
func (w *Workspace) countAll(ctx context.Context, q WorkQuery, out *Work, p privateWork, at string) error {
	if len(out.Rest) == 0 && len(p.refs) == 0 {
		return nil
	}
	target, err := w.Target(ctx)
	if err != nil {
		return err
	}
	repo := w.of(q.Agent)
	tip, err := w.branchTip(ctx, q.Branch)
	if err != nil {
		return err
	}
	all := distinct(at, tip)
	for _, e := range out.Rest {
		all = append(all, e.Tip)
	}
	count := func(commits []string) (int, error) {
		return repo.Count(ctx, append(slices.Clone(commits), "--not", git.Branch(target))...)
	}
	n, err := count(all)
	if err != nil {
		return err
	}
	if out.Unmerged, err = count(append(all, p.commits...)); err != nil {
		return err
	}
	if out.Unmerged += len(p.others); out.Unmerged > n {
		out.Private = p.refs
	}
	return nil
}

// KeepRefs adds the refs that only an agent has, without its stash, and its own worktrees to what is saved of it.
func (o *SaveOptions) KeepRefs(private string) error {
	refs, err := PrivateRefs(private)
	if errors.Is(err, errManyRefs) {
		o.Unread, err = err, nil // all of its git directory is kept
	}
	delete(refs, stashRef)
	o.Refs = refs
	if err != nil {
		return err
	}
	o.Worktrees, err = PrivateWorktrees(private)
	return err
}

// keptTips returns all commits that are saved of an agent, and notes its refs.
func (w *Workspace) keptTips(ctx context.Context, agent, head string, opt SaveOptions, out *TrashRef) ([]string, error) {
	tips, err := w.tips(ctx, head, opt.Branch)
	if err != nil {
		return nil, err
	}
	tips = append(tips, opt.Keep...)
	out.Refs, out.Unread, out.Worktrees = map[string]string{}, opt.Unread, opt.Worktrees
	for _, name := range slices.Sorted(maps.Keys(opt.Refs)) {
		id := opt.Refs[name]
		commit, err := w.of(agent).Commit(ctx, id)
		switch {
		case errors.Is(err, git.ErrNotFound):
			// It names something else, or what does not exist.
			if ids, err := w.of(agent).Resolve(ctx, id); err != nil {
				return nil, err
			} else if ids[0] != "" {
				out.Objects = append(out.Objects, name)
			}
		case err != nil:
			return nil, err
		case commit != id: // a tag
			out.Objects = append(out.Objects, name)
		default:
			out.Refs[name] = id
			tips = append(tips, id)
		}
	}
	seen := map[string]bool{}
	tips = slices.DeleteFunc(tips, func(id string) bool { was := seen[id]; seen[id] = true; return was })
	return w.whole(ctx, agent, tips)
}

// refLines are the private refs in the message of a saved commit.
func refLines(refs map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(&b, "Ref: %s %s\n", refs[name], name)
	}
	return b.String()
}

// savedRefs reads them back. Only refs in namespaces that no agent shares are restored.
func savedRefs(message string) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(message) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Ref: ")
		id, name, two := strings.Cut(text, " ")
		if !ok || !two || !git.IsOID(id) || len(refs) == maxPrivateRefs {
			continue
		}
		short, ok := strings.CutPrefix(name, "refs/")
		if space, _, _ := strings.Cut(short, "/"); ok && !sharedSpace(space) && git.CheckBranch(short) == nil {
			refs[name] = id
		}
	}
	return refs
}

// restoreRefs writes the refs that only an agent had, whose commits the saved commit reaches. The agent has no view yet.
func (w *Workspace) restoreRefs(ctx context.Context, agent, commit string, refs map[string]string) error {
	if len(refs) == 0 {
		return nil
	}
	if err := w.lend(ctx, agent, commit); err != nil {
		return err
	}
	root, err := os.OpenRoot(w.layout().Private(agent))
	if err != nil {
		return err
	}
	defer root.Close()
	for name, id := range refs {
		for dir, rest := "", name; ; {
			part, after, more := strings.Cut(rest, "/")
			if !more {
				break
			}
			dir, rest = path.Join(dir, part), after
			switch err := root.Mkdir(dir, 0o700); {
			case errors.Is(err, fs.ErrExist):
			case err != nil:
				return fmt.Errorf("restore %s: %w", name, err)
			default:
				if err := w.giveDir(root, dir); err != nil {
					return fmt.Errorf("restore %s: %w", name, err)
				}
			}
		}
		write := func(to io.Writer) error { _, err := io.WriteString(to, id+"\n"); return err }
		if err := w.writeAdmin(root, name, write); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}
	return nil
}
