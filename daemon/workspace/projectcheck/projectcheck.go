package projectcheck

import (
	"context"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/git/githooks"
	"polis/daemon/git/worktree"
)

// The names of the rows.
const (
	Layout      = "repository"
	Remotes     = "remotes"
	InProgress  = "operation in progress"
	Identity    = "identity"
	IgnoreFiles = "ignore files"
	Attributes  = "attributes"
	LineEndings = "line endings"
	Filters     = "filters"
	LFS         = "LFS and annex"
	Sparse      = "sparse checkout"
	Status      = "status settings"
	Submodules  = "submodules"
	Refs        = "branches and tags"
	Hooks       = "hooks"
	Signing     = "signing"
	Links       = "links and interpreters"
)

// Project is a project, and what is known about it.
type Project struct {
	// Git is nil for a plain directory. Path is that of the project, Home the one of the owner; "" if it is not known. Target is
	// the branch that is merged to.
	Git                *worktree.Project
	Path, Home, Target string
	// Reload is the command that has polisd read its configuration.
	Reload string

	// Hooks, Settings and HooksErr are the results of package githooks. MustSign: merges wait for a signature.
	Hooks    *wire.GitHooks
	Settings githooks.Settings
	HooksErr error
	MustSign bool
	// Begun and End are those of merge.InProgress, with BegunErr.
	Begun    error
	End      string
	BegunErr error
	// LFS is the directory of its LFS objects; "" if there is none.
	LFS    string
	LFSErr error
	// Submodules is what worktree.SubmoduleNotice returned.
	Submodules    string
	SubmodulesErr error
	// Kept are the refs that agents do not have, with the reasons.
	Kept map[string]string
	// Links lead out of the sandboxes, which have Mounts (sandbox.extra_mounts).
	Links    []outlinks.Link
	LinksErr error
	Mounts   []setting.Mount
}

// Findings are all rows, in a fixed order.
func (p Project) Findings(ctx context.Context) []api.Finding {
	if p.Git == nil {
		return []api.Finding{
			partly(Layout, "a plain directory, no git repository", "agents share it: they have no branches, and nothing is merged").
				by("make it a repository, before agents are added", "git -C "+api.PastedWord(p.Path)+" init && polisctl up --adopt-git --repo "+api.PastedWord(p.Path)),
			p.links(),
		}
	}
	rows := []api.Finding{p.layout(ctx), p.remotes(ctx), p.inProgress()}
	rows = append(rows, OwnersGit(ctx, p.Git, p.Home, p.Target)...)
	return append(rows, p.lfs(), p.submodules(), p.refs(ctx), p.hooks(), p.signing(), p.links())
}

// OwnersGit are the rows about what the git of the project's owner, with this home, has configured, which merges to a branch.
func OwnersGit(ctx context.Context, p *worktree.Project, home, target string) []api.Finding {
	rows := []api.Finding{}
	o, err := p.OwnersGit(ctx, home)
	if err != nil {
		rows = append(rows, unknown(Identity, err), unknown(IgnoreFiles, err))
	} else {
		rows = append(rows, identity(ctx, p, o), ignoreFiles(o))
	}
	files, err := p.AttributesFiles(ctx, home, target)
	rows = append(rows, attributes(files, err))
	c, err := readConfigured(ctx, p, home)
	if err != nil {
		return append(rows, unknown(LineEndings, err), unknown(Filters, err), unknown(Sparse, err), unknown(Status, err))
	}
	return append(rows, c.lineEndings(p), c.filters(ctx, p, home), sparse(ctx, p, home), c.status(p))
}

// Notices are the rows in which agents differ from the owner's git, as sentences.
func Notices(rows []api.Finding) (out []string) {
	for _, r := range rows {
		if text := r.Notice(); text != "" && r.Found != noIdentity {
			out = append(out, text)
		}
	}
	return out
}

func fine(name, found string) api.Finding {
	return api.Finding{Area: api.AreaGit, Name: name, Found: found, Works: api.WorksOK}
}

// maxFound bounds what a row repeats of a configuration, in bytes.
const maxFound = 1000
