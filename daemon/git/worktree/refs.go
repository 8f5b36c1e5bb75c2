package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/store"
)

// Bounds of the refs of a project that agents get.
const (
	maxProjectRefs = 100_000
	maxMoved       = 256 // refs whose commits are compared
)

// agentsBranches is the prefix of the branches that polis makes for agents; a project's branches of such names do not reach them.
const agentsBranches = "refs/heads/agent/"

// Brought is the result of BringRefs.
type Brought struct {
	// Moved counts the refs of the shared repository that are others now.
	Moved int
	// Kept are refs of the project that the shared repository has otherwise, with the reason.
	Kept map[string]string
	// Upstream is the branch of a remote that a branch of the project follows, by the short name of the branch.
	Upstream map[string]Upstream
	project  map[string]string // refs, as refsOf has them
	shared   map[string]string // before that
}

// Start returns the commit at which a new agent's branch of that name begins: "" for the target, or if the branch exists. As git checkout
// does, a branch that one remote has begins there. It refuses a name of the project's whose branch the workspace has otherwise, and the name of
// a remote-tracking branch.
func (b Brought) Start(branch, project string) (commit string, err error) {
	ref := git.Branch(branch)
	refuse := func(format string, args ...any) *api.Error { return api.Errorf(api.CodeRefConflict, format, args...) }
	if why := b.Kept[ref]; why != "" && !strings.HasPrefix(ref, agentsBranches) {
		return "", refuse("branch %s of the project is not the one of the workspace: %s", branch, why).
			WithHint("name another branch, or rename the project's: git -C %s branch -m %s NEW", project, branch)
	}
	if b.project[ref] != "" || b.shared[ref] != "" || strings.HasPrefix(ref, agentsBranches) {
		return "", nil
	}
	if b.project["refs/remotes/"+branch] != "" {
		_, short, _ := strings.Cut(branch, "/")
		return "", refuse("%s is a branch of a remote, as the project knows it, and no agent works on that", branch).
			WithHint("--branch %s begins a branch of that name there", short)
	}
	var on []string
	for name, v := range b.project {
		remote, short, ok := strings.Cut(strings.TrimPrefix(name, "refs/remotes/"), "/")
		if ok && ofRemote(name) && short == branch && git.IsOID(v) {
			on, commit = append(on, remote), v
		}
	}
	if len(on) > 1 {
		slices.Sort(on)
		return "", refuse("branch %s is at several remotes of the project: %s", branch, strings.Join(on, ", ")).
			WithHint("choose one in the project: git -C %s branch %s %s/%s", project, branch, on[0], branch)
	}
	return commit, nil
}

// Upstream is a branch of a remote: the remote's name, and the full name that the branch has there.
type Upstream struct{ Remote, Ref string }

// projectRefs are the refs of a project, as one command reads them.
type projectRefs struct {
	values   map[string]string
	upstream map[string]Upstream
	named    map[string]string // those with the names of agents' branches
}

// BringRefs brings branches, tags and remote-tracking refs of the project to the shared repository, as they are now there: new,
// moved and deleted ones. The target branch is Sync's. What an agent made, works on or has changed stays, and is in Kept. holder returns
// the agent that made a ref, or whose branch it is; "" for none.
func (w *Workspace) BringRefs(ctx context.Context, p *Project, holder func(ref string) string) (Brought, error) {
	done, err := w.locks.Lock(ctx, "refs of the project") // not the name of an agent
	if err != nil {
		return Brought{}, err
	}
	defer done()
	target, err := w.Target(ctx)
	if err != nil {
		return Brought{}, err
	}
	theirs, err := p.refs(ctx, target)
	if err != nil {
		return Brought{}, api.Errorf(api.CodeWorkspaceInvalid, "list the branches of %s: %w", p.Path, err)
	}
	out := Brought{Upstream: theirs.upstream, project: theirs.values}
	r := refsOf{project: theirs.values}
	if r.known, err = w.readBrought(); err != nil {
		// Without it no ref is moved but forward.
		w.cfg.Log.Warn("record of the project's refs not read", "op", "refs", "err", err)
	}
	if r.holder, err = w.holders(holder); err != nil {
		return out, err
	}
	for try := 0; ; try++ {
		if r.shared, err = sharedRefs(ctx, w.Bare()); err != nil {
			return out, api.Errorf(api.CodeRepoCorrupt, "list the refs of the shared repository: %w", err)
		}
		out.shared = r.shared
		plan := r.plan()
		p.keepDamaged(&plan)
		err = w.apply(ctx, p, &plan)
		if err == nil {
			out.Moved, out.Kept = len(plan.set), plan.kept
			theirs.keepNamed(r.shared, out.Kept)
			if !maps.Equal(plan.known, r.known) {
				err = w.writeBrought(plan.known)
			}
			return out, err
		}
		if _, refused := git.ExitCode(err); !refused || try == 2 {
			return out, api.Errorf(api.CodeRefConflict, "bring the refs of the project: %w", err)
		}
		// An agent has made or moved a ref meanwhile.
	}
}

// holders returns why a ref of the shared repository stays as it is: an agent made it, or has it checked out.
func (w *Workspace) holders(made func(ref string) string) (func(ref string) string, error) {
	list, err := w.List()
	if err != nil {
		return nil, err
	}
	on := map[string]string{}
	for _, t := range list {
		if t.Branch != "" {
			on[git.Branch(t.Branch)] = t.Agent
		}
	}
	return func(ref string) string {
		if by := on[ref]; by != "" {
			return "agent " + by + " has it checked out"
		}
		if made != nil {
			if by := made(ref); by != "" {
				return "agent " + by + " has one of its own"
			}
		}
		return ""
	}, nil
}

// apply copies the objects of a plan and moves the refs.
func (w *Workspace) apply(ctx context.Context, p *Project, plan *refPlan) error {
	if len(plan.set) == 0 {
		return nil
	}
	bare := w.Bare()
	want := map[string]bool{}
	for _, v := range plan.set {
		if git.IsOID(v) {
			want[v] = true
		}
	}
	if err := git.Copy(ctx, p.Repo, bare, slices.Sorted(maps.Keys(want))); err != nil {
		return fmt.Errorf("fetch the project's refs: %w", errors.New(err.Error())) // not a refusal of update-ref
	}
	for i, name := range plan.later {
		v := plan.set[name]
		if v == "" || !git.IsOID(v) {
			continue
		}
		forward := false
		if i < maxMoved && !strings.HasPrefix(name, "refs/tags/") {
			var err error
			if forward, err = bare.IsAncestor(ctx, plan.from[name], v); err != nil {
				forward = false // a tag of something else than a commit
			}
		}
		if !forward {
			plan.drop(name, "the workspace has another one of that name")
			if ofRemote(name) {
				delete(plan.kept, name) // agents that may fetch have brought it
			}
		}
	}
	var gone, moved, symbolic bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(plan.set)) {
		old, v := plan.from[name], plan.set[name]
		switch {
		case strings.HasPrefix(v, symref):
			fmt.Fprintf(&symbolic, "%s\x00%s\n", name, strings.TrimPrefix(v, symref))
		case v == "" && strings.HasPrefix(old, symref):
			fmt.Fprintf(&gone, "delete %s\x00\x00", name)
		case v == "":
			fmt.Fprintf(&gone, "delete %s\x00%s\x00", name, old)
		case old == "":
			fmt.Fprintf(&moved, "create %s\x00%s\x00", name, v)
		case strings.HasPrefix(old, symref):
			fmt.Fprintf(&moved, "update %s\x00%s\x00\x00", name, v)
		default:
			fmt.Fprintf(&moved, "update %s\x00%s\x00%s\x00", name, v, old)
		}
	}
	for _, in := range []*bytes.Buffer{&gone, &moved} { // a name is free before another takes its directory
		if in.Len() == 0 {
			continue
		}
		if _, err := bare.Do(ctx, git.Cmd{Args: []string{"update-ref", "--no-deref", "-m", "polis: refs of the project", "--stdin", "-z"}, Stdin: in}); err != nil {
			return err
		}
	}
	for line := range strings.Lines(symbolic.String()) {
		name, to, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if _, err := bare.Run(ctx, "symbolic-ref", "-m", "polis: refs of the project", name, to); err != nil {
			return err
		}
	}
	for name, v := range plan.set {
		if v != "" {
			plan.known[name] = v
		}
	}
	w.cfg.Log.Info("refs of the project brought", "op", "refs", "count", len(plan.set))
	return nil
}

func ofRemote(ref string) bool { return strings.HasPrefix(ref, "refs/remotes/") }

// symref begins the value of a symbolic ref.
const symref = "ref: "

// refs returns the refs of the project that agents get.
func (p *Project) refs(ctx context.Context, target string) (projectRefs, error) {
	all, err := listRefs(ctx, p.Repo)
	if err != nil {
		return all, err
	}
	all.takeNamed()
	maps.DeleteFunc(all.values, func(name, value string) bool {
		to, symbolic := strings.CutPrefix(value, symref)
		return name == git.Branch(target) || strings.HasPrefix(name, agentsBranches) || strings.HasPrefix(name, "refs/remotes/polis/") ||
			symbolic && (!ofRemote(name) || !ofRemote(to) || all.values[to] == "")
	})
	if len(all.values) > maxProjectRefs {
		return all, fmt.Errorf("%w: %d refs, at most %d", git.ErrTooLarge, len(all.values), maxProjectRefs)
	}
	return all, nil
}

// sharedRefs returns the refs of the shared repository.
func sharedRefs(ctx context.Context, bare git.Repo) (map[string]string, error) {
	all, err := listRefs(ctx, bare)
	return all.values, err
}

// listRefs reads branches, tags and remote-tracking refs with one command.
func listRefs(ctx context.Context, r git.Repo) (projectRefs, error) {
	refs := projectRefs{values: map[string]string{}, upstream: map[string]Upstream{}}
	out, err := r.Run(ctx, "for-each-ref", "--format=%(objectname)%00%(refname)%00%(symref)%00%(upstream:remotename)%00%(upstream:remoteref)", "refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return refs, err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 5 || !git.IsOID(f[0]) {
			return refs, fmt.Errorf("git for-each-ref: cannot read %q", api.Shorten(line, 80))
		}
		refs.values[f[1]] = f[0]
		if f[2] != "" {
			refs.values[f[1]] = symref + f[2]
		}
		if branch, ok := strings.CutPrefix(f[1], "refs/heads/"); ok && f[3] != "" && f[3] != "." && strings.HasPrefix(f[4], "refs/heads/") {
			refs.upstream[branch] = Upstream{f[3], f[4]}
		}
	}
	return refs, nil
}

// readBrought returns the refs of the project that were brought before, with their values then.
func (w *Workspace) readBrought() (refs map[string]string, err error) {
	err = w.below(w.layout().ProjectRefs(), func(path string) error {
		if err := store.ReadSummed(path, &refs); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	return refs, err
}

func (w *Workspace) writeBrought(refs map[string]string) error {
	return w.below(w.layout().ProjectRefs(), func(path string) error { return store.WriteSummed(path, refs) })
}
