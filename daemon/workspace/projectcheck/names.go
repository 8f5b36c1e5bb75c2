package projectcheck

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
)

// maxRenamed is the most names in one command.
const maxRenamed = 20

// refs is the row of the refs that agents do not have.
func (p Project) refs(ctx context.Context) api.Finding {
	if len(p.Kept) == 0 {
		return fine(Refs, "agents have those of the project")
	}
	out, err := p.Git.Run(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/own-*", "refs/heads/own-*/**", "refs/tags/own-*", "refs/tags/own-*/**")
	if err != nil {
		return unknown(Refs, err)
	}
	taken := strings.Split(string(out), "\n") // a name can have spaces that are not of ASCII
	free := func(prefix, name string) string {
		name = freeName(taken, prefix, name)
		taken = append(taken, prefix+name)
		return api.PastedWord(name)
	}
	plain, err := p.plainTags(ctx)
	if err != nil {
		return unknown(Refs, err)
	}
	var found, commands []string
	others := 0
	for _, ref := range slices.Sorted(maps.Keys(p.Kept)) {
		found = append(found, api.Shorten(strings.TrimPrefix(ref, "refs/"), 120)+": "+p.Kept[ref])
		branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
		tag, isTag := strings.CutPrefix(ref, "refs/tags/")
		switch {
		case p.Kept[ref] == worktree.RefDamaged, !isBranch && !isTag, isTag && !plain[ref], len(commands) == maxRenamed:
			others++
		case isBranch:
			commands = append(commands, in(p.Git)+"branch -m -- "+api.PastedWord(branch)+" "+free("refs/heads/", branch))
		default:
			old, to := api.PastedWord(ref), free("refs/tags/", tag)
			commands = append(commands, in(p.Git)+"update-ref --no-deref refs/tags/"+to+" "+old+" '' && "+in(p.Git)+"update-ref --no-deref -d "+old)
		}
	}
	f := partly(Refs, strings.Join(found, "; "), "agents do not have them as the project has")
	switch {
	case len(commands) == 0:
		return f.without("delete those of remotes that are in the way, make tags that are symbolic refs again with other names, and restore damaged ones from another clone",
			"polis does not know which of two refs is meant, or what a damaged one was")
	case others > 0:
		return f.by(fmt.Sprintf("rename them in the project; what is not in the command (%d) needs something else, which polisctl init prints after it", others), all(commands))
	}
	return f.by("rename them in the project", all(commands))
}

// plainTags are the refs of the project's tags without the symbolic ones, which name another ref.
func (p Project) plainTags(ctx context.Context) (map[string]bool, error) {
	out, err := p.Git.Run(ctx, "for-each-ref", "--format=%(refname) %(symref)", "refs/tags")
	plain := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, names, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); names == "" {
			plain[name] = true
		}
	}
	return plain, err
}

// freeName is a name that begins with "own-", for a ref that is not among taken and can be beside them: git has no a and a/b.
func freeName(taken []string, prefix, name string) string {
	name = "own-" + strings.ReplaceAll(strings.TrimPrefix(name, "agent/"), "/", "-")
	for n, free := 2, name; ; n++ {
		if !slices.ContainsFunc(taken, func(ref string) bool { return ref == prefix+free || strings.HasPrefix(ref, prefix+free+"/") }) {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, n)
	}
}

// oddRemote is a remote with a name or an address that agents do not get.
type oddRemote struct{ name, address string }

// oddRemotes are the remotes of a configuration that are not among names, sorted.
func oddRemotes(set []worktree.Setting, names []string) (out []oddRemote) {
	for _, s := range set {
		name, is := strings.CutPrefix(s.Key, "remote.")
		if name = strings.TrimSuffix(name, ".url"); is && !slices.Contains(names, name) && !slices.ContainsFunc(out, func(o oddRemote) bool { return o.name == name }) {
			out = append(out, oddRemote{name, s.Value})
		}
	}
	slices.SortFunc(out, func(a, b oddRemote) int { return strings.Compare(a.name, b.name) })
	return out
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// renameRemotes adds the command that gives remotes ordinary names.
func renameRemotes(f partial, p *worktree.Project, odd []oddRemote, names []string) api.Finding {
	var commands []string
	for _, r := range odd {
		if r.address == "" || strings.ContainsAny(r.address, "\n\r") {
			return f.without("give each remote an ordinary name (git remote rename), and an address (git remote set-url)", "a remote has no address, or one of several lines: only you know the right one")
		}
		to := strings.Trim(notInNames.ReplaceAllString(r.name, "-"), "-.")
		for n := 2; git.CheckBranch(to) != nil || len(to) > 100 || slices.Contains(names, to); n++ {
			to = fmt.Sprintf("remote-%d", n)
		}
		names = append(names, to)
		commands = append(commands, in(p)+"remote rename -- "+api.PastedWord(r.name)+" "+to)
	}
	return f.by("give them ordinary names", all(commands))
}
