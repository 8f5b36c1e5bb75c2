package worktree

import (
	"context"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxEnds bounds the branches of an agent that Work counts one by one.
const maxEnds = 20

// Work is the committed work of an agent.
type Work struct {
	// Branch is the branch that a merge takes: the one that HEAD is on if it is the agent's own and
	// contains the agent's branch, else the agent's branch. Commit is the commit of a detached HEAD that a
	// merge takes, "" if it takes a branch.
	Branch, Commit string
	// Rest is what a merge leaves. Private are refs that only the agent has and whose objects are nowhere else,
	// without its stash. Unmerged counts all commits that the target lacks, and objects of private refs that are no
	// commits, if there is one of the two.
	Rest     []End
	Private  map[string]string
	Unmerged int
}

// End is the end of commits that neither the target nor what is merged contains.
type End struct {
	Branch  string // "" if HEAD is detached
	Tip     string
	Commits int
	// Head: HEAD is there. Contains: it contains the agent's branch. Unfinished: git is in the middle of a
	// rebase, a merge or a bisection.
	Head, Contains, Unfinished bool
}

// WorkQuery is whose work Work reads.
type WorkQuery struct {
	Agent, Branch string
	// Owned are the full names of the refs that the agent made.
	Owned []string
	// Whole: the agent's rules withhold nothing, so that the commit of a detached HEAD can be published.
	Whole bool
}

// Work returns the commits of an agent: of its HEAD, its branch, and the other branches that it made.
func (w *Workspace) Work(ctx context.Context, q WorkQuery) (Work, error) {
	out := Work{Branch: q.Branch}
	if err := w.usable(q.Agent); err != nil {
		return out, err
	}
	fail := func(err error) (Work, error) {
		return out, api.Errorf(api.CodeWorktreeFailed, "read the commits of %s: %w", q.Agent, err)
	}
	own := ownHeads(q)
	head, err := w.headEnd(ctx, q.Agent, q.Branch, own)
	if err != nil {
		return fail(err)
	}
	private, err := w.privateWork(ctx, q.Agent)
	if err != nil {
		return fail(err)
	}
	if head == nil && len(own) == 0 && len(private.refs) == 0 {
		return out, nil
	}
	tip, err := w.branchTip(ctx, q.Branch)
	if err != nil {
		return fail(err)
	}
	if head != nil {
		if err := w.judgeHead(ctx, q, head, tip); err != nil {
			return fail(err)
		}
		if mayTake(*head, q.Whole) {
			tip = head.Tip
			if out.Commit = head.Tip; head.Branch != "" {
				out.Branch, out.Commit = head.Branch, ""
			}
		}
	}
	if err := w.rest(ctx, q, &out, head, own, tip); err != nil {
		return fail(err)
	}
	if err := w.countAll(ctx, q, &out, private, tip); err != nil {
		return fail(err)
	}
	return out, nil
}

// mayTake reports whether a merge takes HEAD and not the agent's branch.
func mayTake(head End, whole bool) bool {
	return head.Contains && !head.Unfinished && head.Commits > 0 && (head.Branch != "" || whole)
}

// ownHeads are the names of the agent's branches without the one that is merged.
func ownHeads(q WorkQuery) []string {
	var out []string
	for _, ref := range q.Owned {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && name != q.Branch && git.CheckBranch(name) == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// headEnd is where HEAD is, nil if that is the agent's branch, a branch that the agent did not make, or no commit.
func (w *Workspace) headEnd(ctx context.Context, agent, branch string, own []string) (*End, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := readSmall(root, "HEAD")
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	e := &End{Head: true}
	if name, symbolic := strings.CutPrefix(text, "ref: refs/heads/"); symbolic {
		if name == branch || !slices.Contains(own, name) {
			return nil, nil //nolint:nilnil // HEAD is nowhere else
		}
		e.Branch = name
	} else if !git.IsOID(text) {
		return nil, nil //nolint:nilnil // as above
	}
	if e.Tip, err = w.head(ctx, agent); err != nil || e.Tip == "" {
		return nil, err
	}
	whole, err := w.whole(ctx, agent, []string{e.Tip})
	if err != nil || len(whole) == 0 {
		return nil, err
	}
	busy, err := unfinishedIn(root)
	e.Unfinished = busy != ""
	return e, err
}

// judgeHead determines whether HEAD contains the agent's branch, which is at tip, and how many commits it has
// that no ref of others has: the branch of another agent, or of a remote, is no work of this one.
func (w *Workspace) judgeHead(ctx context.Context, q WorkQuery, head *End, tip string) error {
	repo := w.of(q.Agent)
	var err error
	if head.Contains = tip == ""; !head.Contains {
		if head.Contains, err = repo.IsAncestor(ctx, tip, head.Tip); err != nil {
			return err
		}
	}
	out, err := repo.Run(ctx, "for-each-ref", "--contains="+head.Tip, "--format=%(refname)", "refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return err
	}
	for ref := range strings.FieldsSeq(string(out)) {
		if ref != git.Branch(q.Branch) && !slices.Contains(q.Owned, ref) {
			return nil // Commits is 0
		}
	}
	head.Commits = 1
	if tip != "" {
		head.Commits, err = repo.Count(ctx, head.Tip, "--not", tip)
	}
	return err
}

// rest adds what a merge of the commit at leaves.
func (w *Workspace) rest(ctx context.Context, q WorkQuery, out *Work, head *End, own []string, at string) error {
	target, err := w.Target(ctx)
	if err != nil {
		return err
	}
	bare := w.of(q.Agent)
	not := []string{"--not", git.Branch(target)}
	if at != "" {
		not = append(not, at)
	}
	ends, err := w.leftBranches(ctx, q.Agent, own, not[1:])
	if err != nil {
		return err
	}
	detached := head != nil && head.Branch == "" && head.Commits > 0 && head.Tip != at
	if detached && !slices.ContainsFunc(ends, func(e End) bool { return e.Tip == head.Tip }) {
		ends = append(ends, *head)
	}
	for _, e := range ends {
		if head != nil && e.Branch == head.Branch {
			e.Head, e.Contains, e.Unfinished = true, head.Contains, head.Unfinished
		}
		if len(out.Rest) == maxEnds {
			continue
		}
		if e.Commits, err = bare.Count(ctx, append([]string{e.Tip}, not...)...); err != nil {
			return err
		}
		if e.Commits > 0 {
			out.Rest = append(out.Rest, e)
		}
	}
	return nil
}

// leftBranches are those of the branches that the commits do not contain.
func (w *Workspace) leftBranches(ctx context.Context, agent string, own, commits []string) ([]End, error) {
	if len(own) == 0 {
		return nil, nil
	}
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)"}
	for _, c := range commits {
		args = append(args, "--no-merged="+c)
	}
	out, err := w.of(agent).Run(ctx, append(args, "refs/heads")...)
	if err != nil {
		return nil, err
	}
	var ends []End
	for line := range strings.Lines(string(out)) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name := strings.TrimPrefix(ref, "refs/heads/"); slices.Contains(own, name) {
			ends = append(ends, End{Branch: name, Tip: id})
		}
	}
	return ends, nil
}
