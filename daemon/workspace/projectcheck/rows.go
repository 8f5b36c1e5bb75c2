package projectcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/git/githooks"
	"polis/daemon/history/policylearn"
	"polis/daemon/merge/remote"
)

func (p Project) layout(ctx context.Context) api.Finding {
	found := "a clone at " + p.Git.Path
	if from := p.Git.Linked(); from != "" {
		found = "a linked worktree of " + from
	}
	if p.Git.Bare {
		return partly(Layout, "a bare repository at "+p.Git.Path, "it has no checkout that merges could update").
			by("put a clone of it under polis", "polisctl up --clone --repo "+api.PastedWord(p.Git.Path))
	}
	if n := p.Git.OtherWorktrees(ctx); n > 0 {
		found += fmt.Sprintf(", with %s", api.Count(n, "other worktree"))
	}
	if p.Git.Shallow {
		return partly(Layout, found+"; its history is shallow", "agents have only the commits that it has").
			by("fetch the rest, if agents need it", in(p.Git)+"fetch --unshallow")
	}
	return fine(Layout, found)
}

func (p Project) remotes(ctx context.Context) api.Finding {
	set, err := p.Git.Settings(ctx)
	if err != nil {
		return unknown(Remotes, err)
	}
	list := remote.Of(p.Git, set)
	names := make([]string, 0, len(list))
	for _, r := range list {
		names = append(names, r.Name)
	}
	if odd := oddRemotes(set, names); len(odd) > 0 {
		f := partly(Remotes, fmt.Sprintf("%s; %s with an odd name or address", strings.Join(names, ", "), api.Count(len(odd), "remote")), "agents do not have these")
		return renameRemotes(f, p.Git, odd, names)
	}
	if len(list) == 0 {
		return fine(Remotes, "none")
	}
	return fine(Remotes, strings.Join(names, ", "))
}

func (p Project) inProgress() api.Finding {
	switch {
	case p.BegunErr != nil:
		return unknown(InProgress, p.BegunErr)
	case p.Begun != nil:
		return partly(InProgress, p.Begun.Error(), "merges are not checked out until it ends").by("end it, or abort it", p.End)
	}
	return fine(InProgress, "none")
}

func (p Project) lfs() api.Finding {
	switch {
	case p.LFSErr != nil:
		return unknown(LFS, p.LFSErr)
	case p.Git.AnnexContents():
		return partly(LFS, "the project has contents of git-annex", "agents have the links, without the contents").
			without("in the project, run git annex unannex for the files that agents need, and commit them as ordinary files", "which files these are, only you know")
	case p.LFS != "":
		return fine(LFS, "objects in "+p.LFS+", which agents can read")
	}
	return fine(LFS, "none")
}

func (p Project) submodules() api.Finding {
	switch {
	case p.SubmodulesErr != nil:
		return unknown(Submodules, p.SubmodulesErr)
	case p.Submodules != "":
		return partly(Submodules, p.Submodules, "").by("as the owner of the project, before agents are added", in(p.Git)+"submodule update --init --recursive")
	}
	return fine(Submodules, "none is empty")
}

func (p Project) hooks() api.Finding {
	if p.HooksErr != nil {
		return unknown(Hooks, p.HooksErr)
	}
	text := githooks.Notice(p.Hooks)
	switch {
	case text == "" && p.Hooks == nil:
		return fine(Hooks, "none")
	case text == "":
		return fine(Hooks, "they run in the agents' sandboxes: "+strings.Join(p.Hooks.Names, ", "))
	case p.Hooks.Place == wire.HooksOutside:
		return partly(Hooks, text, "").without("put those that agents may run into the project and set core.hooksPath to that directory, or set merge.check to a command that tests the project",
			"they are programs outside of the project: which of them may run in sandboxes is yours to decide")
	}
	return partly(Hooks, text, "").by("only if agents may run them: they run in the sandboxes, with the rights of agents", p.configure("git.hooks", "run"))
}

func (p Project) signing() api.Finding {
	if p.HooksErr != nil {
		return unknown(Signing, p.HooksErr)
	}
	if text := githooks.SignNotice(p.Settings, p.MustSign); text != "" {
		return partly(Signing, text, "").by("only if every merge can wait for a person who signs it", p.configure("merge.sign", "true"))
	}
	if p.MustSign {
		return fine(Signing, "merges wait for a signature")
	}
	return fine(Signing, "commits are not signed")
}

func (p Project) links() api.Finding {
	c := outlinks.Check("the project", p.Links, p.LinksErr).Finding()
	c.Area, c.Name = api.AreaFiles, Links
	if len(p.Links) == 0 {
		return c
	}
	var found []string
	for _, l := range p.Links {
		found = append(found, policylearn.Quote(l.Path)+" leads to "+policylearn.Quote(l.Target))
	}
	c.Found = api.Shorten(strings.Join(found, "; "), maxFound)
	c.Fix = "only if every agent of this machine may read what they lead to: mount it read-only, and restart the agents"
	c.Command, c.NoCommand = p.mountCommand(), ""
	return c
}

// mountCommand is the command that mounts what the links lead to, beside the mounts that there are.
func (p Project) mountCommand() string {
	mounts := slices.Clone(p.Mounts)
	for _, l := range p.Links {
		if s := l.Source(); !hasSource(mounts, s) {
			mounts = append(mounts, setting.Mount{Source: s, Dest: s, ReadOnly: true})
		}
	}
	return p.configure("sandbox.extra_mounts", tables(mounts))
}

func hasSource(mounts []setting.Mount, source string) bool {
	for _, m := range mounts {
		if m.Source == source && m.Dest == source {
			return true
		}
	}
	return false
}

// tables is a list of mounts as TOML has it.
func tables(mounts []setting.Mount) string {
	out := make([]string, 0, len(mounts))
	for _, m := range mounts {
		out = append(out, fmt.Sprintf("{ source = %s, dest = %s, read_only = %t }", policylearn.Quote(m.Source), policylearn.Quote(m.Dest), m.ReadOnly))
	}
	return "[" + strings.Join(out, ", ") + "]"
}
