package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge"
	"polis/daemon/merge/gate"
)

const (
	maxPullTitle   = 255
	maxPullBody    = 60 << 10
	maxPullCommits = 50
	maxPullNotes   = 20 // protected paths that a preview names
)

// Opener pushes branches of one workspace and opens pull requests for them.
type Opener struct {
	Git *worktree.Workspace
	// Target is the branch that pull requests go to.
	Target string
	// UID and GID push where the project belongs to root, as whom nothing is pushed.
	UID, GID int
	// Home returns the home directory of a user, "" if there is none.
	Home func(uid uint32) string
	// Lock keeps the repository's refs as they are until release.
	Lock func(ctx context.Context) (release func(), err error)
	// CheckTrees refuses a commit with trees that cannot be checked out.
	CheckTrees func(ctx context.Context, branch, tip, base string) error
	// Tasks returns the tasks of an agent, the oldest first.
	Tasks   func(agent string) ([]api.Task, error)
	Publish func(api.Event)
	Log     *slog.Logger
}

// Open pushes the agent's branch as the owner of the project and opens a pull
// request. rules are those of the agent. Only the owner and root (caller) may spend
// the owner's credentials: FORBIDDEN for others.
func (o *Opener) Open(ctx context.Context, caller uint32, a api.Agent, rules gate.Rules, req api.PullRequest) (api.PullResponse, error) {
	kind, err := Validate(req)
	if err != nil {
		return api.PullResponse{}, err
	}
	p := &pull{Opener: o, agent: a, req: req, rules: rules}
	if err := p.who(ctx, caller); err != nil {
		return api.PullResponse{}, err
	}
	if err := p.commits(ctx); err != nil {
		return api.PullResponse{}, err
	}
	if err := p.remotes(ctx, kind); err != nil {
		return api.PullResponse{}, err
	}
	if err := p.text(ctx); err != nil {
		return api.PullResponse{}, err
	}
	return p.do(ctx)
}

// Validate checks the fields of a request: BAD_REQUEST.
func Validate(req api.PullRequest) (Kind, error) {
	switch {
	case len(req.Title) > maxPullTitle || strings.ContainsAny(req.Title, "\x00\n\r"):
		return "", api.Errorf(api.CodeBadRequest, "title has %d bytes: at most %d, in one line", len(req.Title), maxPullTitle)
	case len(req.Body) > maxPullBody || strings.ContainsRune(req.Body, 0):
		return "", api.Errorf(api.CodeBadRequest, "body has %d bytes: at most %d, no NUL", len(req.Body), maxPullBody)
	}
	for _, r := range []string{req.Remote, req.Into} {
		if len(r) > 200 || strings.HasPrefix(r, "-") || strings.ContainsAny(r, "\x00\n\r ") {
			return "", api.Errorf(api.CodeBadRequest, "remote = %q: must be the name of a remote of the project", api.Shorten(r, 64))
		}
	}
	return ParseKind(req.Forge)
}

// pull is one pull request in the making.
type pull struct {
	*Opener
	agent api.Agent
	req   api.PullRequest
	rules gate.Rules

	project *worktree.Project
	runner  *git.Runner
	own     *git.Own
	push    Push
	work    Work
	base    string // commit of the target
	count   int
	remote  string
	from    Remote
	into    Remote
	notes   []string
}

// who decides as whom to act: the owner of the project, never root.
func (p *pull) who(ctx context.Context, caller uint32) (err error) {
	if p.project, err = p.Git.Project(ctx); err != nil {
		return err
	}
	if p.project == nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "the project is no git repository any more")
	}
	if err := p.Git.Guard(); err != nil {
		return err
	}
	uid, gid := p.project.Owner.UID, p.project.Owner.GID
	if caller != 0 && caller != uid {
		return api.Errorf(api.CodeForbidden, "a pull request is made with the credentials of the project's owner (uid %d)", uid).
			WithHint("only that user and root may ask for it")
	}
	if uid == 0 {
		uid, gid = uint32(p.UID), uint32(p.GID)
		p.notes = append(p.notes, fmt.Sprintf("the project belongs to root, as whom nothing is pushed: uid %d is used, and its credentials", uid))
	}
	p.own = &git.Own{UID: uid, Home: "/nonexistent"}
	for _, name := range api.PullEnv() {
		if v := p.req.Env[name]; v != "" && !strings.ContainsRune(v, 0) {
			p.own.Env = append(p.own.Env, name+"="+v)
		}
	}
	if home := p.Home(uid); filepath.IsAbs(home) {
		p.own.Home = home
	}
	p.runner = &git.Runner{UID: uid, GID: gid, Log: p.Log}
	return nil
}

// commits fixes what is pushed. Nothing of the repository is held afterwards:
// a push may take minutes, and what a commit names does not change.
func (p *pull) commits(ctx context.Context) error {
	release, err := p.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	bare, branch, target := p.Git.Bare(), p.agent.Branch, p.Target
	if branch == target {
		return api.Errorf(api.CodeBadState, "the agent works on %s itself, which is what a pull request would go to", target)
	}
	tip, err := bare.Ref(ctx, git.Branch(branch))
	if errors.Is(err, git.ErrNotFound) {
		return api.Errorf(api.CodeNotFound, "there is no branch %s to push", branch)
	} else if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", branch, err)
	}
	if p.base, err = bare.Ref(ctx, git.Branch(target)); err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", target, err)
	}
	if p.count, err = bare.Count(ctx, "--no-merges", tip, "^"+p.base); err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "count the commits of %s: %w", branch, err)
	}
	if p.count == 0 {
		return api.Errorf(api.CodeNothingToMerge, "%s has every commit of %s already", target, branch).
			WithHint("only commits are pushed: are the changes committed?")
	}
	if err := p.judge(ctx, tip); err != nil {
		return err
	}
	out, err := bare.Run(ctx, "log", "-z", "--no-merges", fmt.Sprintf("--max-count=%d", maxPullCommits), "--format=%s%n%b", tip, "^"+p.base)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read the commits of %s: %w", branch, err)
	}
	p.work = Work{Agent: p.agent.Name, Branch: branch, Range: p.base + ".." + tip}
	for _, text := range git.SplitNUL(out) {
		subject, body, _ := strings.Cut(text, "\n")
		p.work.Commits = append([]Commit{{Subject: subject, Body: body}}, p.work.Commits...)
	}
	p.work.More = p.count - len(p.work.Commits)
	p.push = Push{Repo: git.Repo{Runner: p.runner, Dir: bare.Dir}, Own: p.own, Commit: tip, Branch: branch, Force: p.req.Force}
	st, err := p.Git.Status(ctx, p.agent.Name, branch, worktree.View{})
	if err != nil {
		p.notes = append(p.notes, fmt.Sprintf("whether everything is committed is not known: %v", err))
	} else if n := st.Staged + st.Unstaged + st.Untracked + st.Conflicted; n > 0 {
		p.notes = append(p.notes, fmt.Sprintf("not included: %s of the worktree", api.Count(n, "uncommitted change")))
	}
	return nil
}

// judge compares what the branch changes with the agent's rules, as a merge does.
func (p *pull) judge(ctx context.Context, tip string) error {
	if err := p.CheckTrees(ctx, p.agent.Branch, tip, p.base); err != nil {
		return err
	}
	changes, err := gate.ChangedSince(ctx, p.Git.Bare(), tip, p.base)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read what branch %s changes: %w", p.agent.Branch, err)
	}
	v := p.rules.Judge(changes)
	if p.req.DryRun {
		for _, f := range v.Protected[:min(len(v.Protected), maxPullNotes)] {
			p.notes = append(p.notes, fmt.Sprintf("protected, needs --accept-protected: %s", f))
		}
	}
	return merge.Held(p.agent.Name, p.agent.Branch, v, p.req.AcceptProtected || p.req.DryRun)
}

func (p *pull) text(ctx context.Context) (err error) {
	if p.work.Tasks, err = p.tasks(ctx); err != nil {
		return err
	}
	if p.req.Title == "" {
		p.req.Title = p.work.Title()
	}
	if p.req.Body == "" {
		p.req.Body = p.work.Body()
	}
	return nil
}

func (p *pull) do(ctx context.Context) (api.PullResponse, error) {
	tool := FindTool(ctx, p.own, p.runner.GID, &p.into)
	if p.from.Host == p.into.Host {
		p.from.Kind = p.into.Kind
	}
	target := p.Target
	resp := api.PullResponse{Agent: p.agent.Name, Branch: p.agent.Branch, Target: target, Commit: p.push.Commit, Remote: p.remote,
		RemoteURL: Display(p.push.URL), DryRun: p.req.DryRun, Forge: string(p.into.Kind), Title: p.req.Title, Body: p.req.Body, Draft: p.req.Draft,
		Commits: p.count, CompareURL: p.into.CompareURL(target, p.from, p.agent.Branch), Notes: p.notes}
	if tool != nil {
		resp.Tool = tool.Name
	}
	if p.req.DryRun {
		return resp, nil
	}
	var err error
	if resp.Pushed, err = p.push.Do(ctx); err != nil {
		return resp, err
	}
	p.Log.Info("branch was pushed for review", "agent", p.agent.Name, "path", p.agent.Branch, "remote", p.remote)
	if tool != nil {
		opened, err := tool.Open(ctx, Request{Into: p.into, From: p.from, Branch: p.agent.Branch, Target: target, Title: p.req.Title, Body: p.req.Body, Draft: p.req.Draft})
		if err == nil {
			resp.URL, resp.Existed = opened.URL, opened.Existed
			p.Publish(api.Event{Type: api.EventAgentPull, Agent: p.agent.Name, Message: "branch " + p.agent.Branch + " is up for review: " + opened.URL,
				Data: map[string]any{"url": opened.URL, "existed": opened.Existed, "remote": p.remote}})
			return resp, nil
		}
		resp.Notes = append(resp.Notes, err.Error())
	}
	if resp.RequestPull, err = p.push.RequestPull(ctx, p.base); err != nil {
		resp.Notes = append(resp.Notes, err.Error())
	}
	p.Publish(api.Event{Type: api.EventAgentPull, Agent: p.agent.Name, Message: "branch " + p.agent.Branch + " was pushed to " + p.remote,
		Data: map[string]any{"compare_url": resp.CompareURL, "remote": p.remote}})
	return resp, nil
}
