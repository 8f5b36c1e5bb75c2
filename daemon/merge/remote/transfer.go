package remote

import (
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// hidden is where what a remote has is kept out of agents' sight.
func hidden(remote, kind string) string { return "refs/polis/remotes/" + remote + "/" + kind + "/" }

// open takes the turn of the remote called name and prepares access to it. The caller must call
// done, which is never nil, also after an error.
func (b *Broker) open(ctx context.Context, name string) (r Remote, a access, done func(), err error) {
	if err := b.Workspace.Guard(); err != nil {
		return r, a, func() {}, err
	}
	p, r, leave, err := b.one(ctx, name)
	if err != nil {
		return r, a, func() {}, err
	}
	a, end, err := b.reach(ctx, p, r)
	return r, a, func() { end(); leave() }, err
}

// Refs returns the branches and tags that a remote has now.
func (b *Broker) Refs(ctx context.Context, name string) (api.RemoteResponse, error) {
	r, a, done, err := b.open(ctx, name)
	defer done()
	if err != nil {
		return api.RemoteResponse{}, err
	}
	return b.list(ctx, r, a)
}

func (b *Broker) list(ctx context.Context, r Remote, a access) (api.RemoteResponse, error) {
	out, err := b.run(ctx, a, nil, "ls-remote", "--symref", "polis", "HEAD", "refs/heads/*", "refs/tags/*")
	if err != nil {
		return api.RemoteResponse{}, failed(r, "ask", err, a.secrets...)
	}
	return parseRefs(string(out)), nil
}

// parseRefs reads git ls-remote --symref.
func parseRefs(out string) api.RemoteResponse {
	res := api.RemoteResponse{Refs: []api.RemoteRef{}}
	for line := range strings.Lines(out) {
		value, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch target, symbolic := strings.CutPrefix(value, "ref: "); {
		case !ok || strings.ContainsAny(name, " \t\r") || strings.HasSuffix(name, "^{}"):
		case symbolic && name == "HEAD" && strings.HasPrefix(target, "refs/heads/"):
			res.Head = target
		case git.IsOID(value) && (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")):
			res.Refs = append(res.Refs, api.RemoteRef{Name: name, Commit: value})
		}
	}
	return res
}

func (b *Broker) run(ctx context.Context, a access, say func(git.Step), args ...string) ([]byte, error) {
	return b.Workspace.Bare().Do(ctx, git.Cmd{Args: args, Config: a.config, Env: a.env, Global: a.global, Remote: true, Timeout: timeout, Progress: say})
}

// Fetch fetches the branches and tags of a remote and returns them. It moves no ref that an agent
// sees: the agent's own git does that, as far as its view lets it.
func (b *Broker) Fetch(ctx context.Context, name string, say func(git.Step)) (api.RemoteResponse, error) {
	r, a, done, err := b.open(ctx, name)
	defer done()
	if err != nil {
		return api.RemoteResponse{}, err
	}
	res, err := b.list(ctx, r, a)
	if err != nil {
		return res, err
	}
	if err := b.fetch(ctx, name, a, say); err != nil {
		return res, failed(r, "fetch from", err, a.secrets...)
	}
	have, err := b.ids(ctx, name)
	if err != nil {
		return res, err
	}
	// Refs that moved between the two queries are reported next time: git must not ask for a
	// commit that is not here.
	refs := res.Refs[:0]
	for _, ref := range res.Refs {
		if have[ref.Commit] {
			refs = append(refs, ref)
		}
	}
	res.Refs = refs
	return res, nil
}

// maxTips bounds the present commits that are announced to a remote.
const maxTips = 256

// fetch fetches the objects to the shared repository and keeps the refs in the internal one: git
// fetch reads the HEADs of all worktrees of its repository, which their agents write, and a
// dangling one would make it fail for all agents.
func (b *Broker) fetch(ctx context.Context, name string, a access, say func(git.Step)) error {
	bare, internal := b.Workspace.Bare(), b.Workspace.Internal()
	args := []string{"fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--prune", "--no-recurse-submodules"}
	tips := map[string]bool{}
	for _, from := range []struct {
		repo   git.Repo
		prefix string
	}{{internal, strings.TrimSuffix(hidden(name, "heads"), "/")}, {bare, "refs/heads"}} {
		refs, err := from.repo.Refs(ctx, from.prefix)
		if err != nil {
			return err
		}
		for _, id := range refs {
			if !tips[id] && len(tips) < maxTips {
				tips[id] = true
				args = append(args, "--negotiation-tip="+id)
			}
		}
	}
	args = append(args, "polis", "+refs/heads/*:"+hidden(name, "heads")+"*", "+refs/tags/*:"+hidden(name, "tags")+"*")
	internal.Objects, internal.Alternates = bare.ObjectDir(), []string{internal.ObjectDir()}
	_, err := internal.Do(ctx, git.Cmd{Args: args, Config: a.config, Env: a.env, Global: a.global, Remote: true, Timeout: timeout, Progress: say})
	return err
}

// ids are what has been brought in from a remote.
func (b *Broker) ids(ctx context.Context, name string) (map[string]bool, error) {
	got, err := b.Workspace.Internal().Refs(ctx, strings.TrimSuffix(hidden(name, "heads"), "/"), strings.TrimSuffix(hidden(name, "tags"), "/"))
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, oid := range got {
		ids[oid] = true
	}
	return ids, nil
}

// Push updates refs of a remote. The caller has checked that the agent may.
func (b *Broker) Push(ctx context.Context, name string, updates []api.RemoteUpdate, dryRun bool, say func(git.Step)) (api.RemoteResponse, error) {
	r, a, done, err := b.open(ctx, name)
	defer done()
	if err != nil {
		return api.RemoteResponse{}, err
	}
	args := []string{"push", "--progress", "--porcelain", "--no-verify", "--recurse-submodules=no", "--no-signed"}
	if dryRun {
		args = append(args, "--dry-run")
	}
	args = append(args, "polis")
	for _, u := range updates {
		force := ""
		if u.Force {
			force = "+"
		}
		args = append(args, force+u.Commit+":"+u.Ref)
	}
	out, err := b.run(ctx, a, say, args...)
	res := api.RemoteResponse{Refused: map[string]string{}}
	made := parsePush(string(out), res.Refused)
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1 || len(res.Refused) == 0) {
		return api.RemoteResponse{}, failed(r, "push to", err, a.secrets...)
	}
	for _, u := range updates {
		if !made[u.Ref] && res.Refused[u.Ref] == "" {
			res.Refused[u.Ref] = "the remote did not report a result for it"
		}
	}
	return res, nil
}

// parsePush reads git push --porcelain: a flag, FROM:TO and a summary with the
// reason in parentheses. It returns what was done and adds what was not.
func parsePush(out string, refused map[string]string) map[string]bool {
	done := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) != 3 || len(f[0]) != 1 {
			continue
		}
		_, to, ok := strings.Cut(f[1], ":")
		switch {
		case !ok:
		case f[0] == "!":
			why := f[2]
			if i := strings.LastIndexByte(why, '('); i >= 0 {
				why = strings.TrimSuffix(why[i+1:], ")")
			}
			refused[to] = why
		case strings.Contains(" +-*=", f[0]):
			done[to] = true
		}
	}
	return done
}
