package projectcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git/worktree"
)

// noIdentity is the row of an owner who has not configured one: agents have one all the same, and up does not repeat it each time.
const noIdentity = "your git has no complete identity in this project (user.name, user.email)"

func identity(ctx context.Context, p *worktree.Project, o *worktree.OwnersGit) api.Finding {
	ids, err := o.Identity(ctx)
	const cost = "agents and merges commit with a name of their own in place of what is missing"
	if err != nil {
		return partly(Identity, err.Error(), cost).without("correct what the error names in the configuration of your git", "what should stand there, only you know")
	}
	var ask []string
	for _, k := range []struct{ what, key, author, committer string }{
		{"name", "user.name", ids.Author.Name, ids.Committer.Name}, {"email address", "user.email", ids.Author.Email, ids.Committer.Email},
	} {
		if k.author == "" || k.committer == "" {
			ask = append(ask, fmt.Sprintf(`printf 'Your %s: ' && read -r answer && %sconfig --replace-all %s "$answer"`, k.what, in(p), k.key))
		}
	}
	if len(ask) > 0 {
		return partly(Identity, noIdentity, cost).by("set it in the project's git (or, with --global, for all projects of yours); the command asks you for it", all(ask))
	}
	found := ids.Author.Name + " <" + ids.Author.Email + ">"
	if ids.Committer != ids.Author {
		found += ", committer " + ids.Committer.Name + " <" + ids.Committer.Email + ">"
	}
	return fine(Identity, found)
}

func ignoreFiles(o *worktree.OwnersGit) api.Finding {
	patterns, err := o.Ignored()
	if err != nil {
		return partly(IgnoreFiles, err.Error(), "agents do not ignore what this file ignores").
			without("move the patterns that all need to .gitignore of the project, and commit it", "which of them the project needs, only you know")
	}
	if n := strings.Count(patterns, "\n"); n > 0 {
		return fine(IgnoreFiles, api.Count(n, "pattern")+" beside .gitignore, which agents have too")
	}
	return fine(IgnoreFiles, "none beside .gitignore")
}

// attributes is the row of the files with attributes that only one of both gits reads.
func attributes(files []string, err error) api.Finding {
	if len(files) == 0 {
		if err != nil {
			return unknown(Attributes, err)
		}
		return fine(Attributes, "none beside .gitattributes")
	}
	found := strings.Join(files, ", ")
	if err != nil {
		found += "; " + err.Error()
	}
	const fix = "what all need belongs into .gitattributes of the project, in a commit of its owner: lines of info/attributes at the end, as they count more (remove them there), and others at the beginning"
	f := partly(Attributes, found, "of your git and that of agents, only one has the attributes of these files")
	if err != nil {
		return f.without(fix+"; first make these files readable for the owner of the project", "what is in the way is not known, beside the error")
	}
	return f.without(fix, "which of these lines all need, only you know")
}

// statusKeys are settings that change what git reports as changed or new, with the value that git has without them.
var statusKeys = map[string]string{"core.filemode": "true", "core.symlinks": "true", "core.ignorecase": "false", "status.showuntrackedfiles": "normal", "diff.ignoresubmodules": "none"}

// settingKeys matches the keys of which the owner's git and that of agents can have different values.
const settingKeys = `^(filter\..*\.(clean|smudge|process|required)|core\.(autocrlf|eol|filemode|symlinks|ignorecase)|status\.showuntrackedfiles|diff\.ignoresubmodules|submodule\..*\.ignore)$`

// configured has the settings of the owner's git, and of those what agents' git reads too: the system's.
type configured struct {
	owner, system map[string]worktree.OwnersSetting
}

// systemFile is the configuration of the system. Sandboxes have it; what it includes can be elsewhere, or on a condition.
const systemFile = "/etc/gitconfig"

func readConfigured(ctx context.Context, p *worktree.Project, home string) (configured, error) {
	c := configured{map[string]worktree.OwnersSetting{}, map[string]worktree.OwnersSetting{}}
	list, err := p.OwnersSettings(ctx, home, settingKeys)
	for _, s := range list {
		if s.Bare {
			s.Value = "true"
		}
		c.owner[s.Key] = s // the last one counts
		if s.Scope == "system" && s.File == systemFile {
			c.system[s.Key] = s
		}
	}
	return c, err
}

// differs returns the keys of which the owner's git has other values than agents have, with the owner's value, and the commands that
// give the project those of agents: they have the ones of shared, and else those of without.
func (c configured) differs(p *worktree.Project, keys []string, shared map[string]worktree.OwnersSetting, without map[string]string) (found, commands []string) {
	slices.Sort(keys)
	for _, key := range keys {
		value := func(of map[string]worktree.OwnersSetting) string {
			if s, ok := of[key]; ok {
				return normal(s.Value)
			}
			return without[key]
		}
		if agents := value(shared); value(c.owner) != agents {
			found = append(found, fmt.Sprintf("%s = %s (%s)", key, api.Shorten(c.owner[key].Value, 60), c.owner[key].Scope))
			commands = append(commands, set(p, key, agents, c.owner[key].Scope))
		}
	}
	return found, commands
}

// normal is a value of a configuration, with one word for each boolean (git-config(1)).
func normal(value string) string {
	switch v := strings.ToLower(value); v {
	case "yes", "on", "1":
		return "true"
	case "", "no", "off", "0":
		return "false"
	default:
		return v
	}
}

// lineEndings is the row of conversions. What the system sets is one, too: polis makes the files of agents without it.
func (c configured) lineEndings(p *worktree.Project) api.Finding {
	found, commands := c.differs(p, []string{"core.autocrlf", "core.eol"}, nil, map[string]string{"core.autocrlf": "false", "core.eol": "native"})
	if len(found) == 0 {
		return fine(LineEndings, "as in agents")
	}
	f := partly(LineEndings, strings.Join(found, ", "), "the files of agents are made without converting line endings by it: they can have other ones there")
	if p.Bare || normal(c.owner["core.autocrlf"].Value) != "true" && normal(c.owner["core.eol"].Value) != "crlf" {
		return f.by("convert in the project as agents do, and let .gitattributes say what all need", all(commands))
	}
	return f.without("commit or save what is changed, convert in the project as agents do (git config core.autocrlf false, core.eol native), and check all files out again; let .gitattributes say what all need",
		"the files have CRLF now, and making them again overwrites what is changed, also what git status does not list")
}

// filters is the row of the filter drivers that apply to files of the project.
func (c configured) filters(ctx context.Context, p *worktree.Project, home string) api.Finding {
	drivers := map[string]bool{} // with whether the system alone sets them
	for key, s := range c.owner {
		if rest, ok := strings.CutPrefix(key, "filter."); ok && s.Value != "" && !strings.HasSuffix(key, ".required") {
			name := rest[:strings.LastIndexByte(rest, '.')]
			all, seen := drivers[name]
			drivers[name] = (all || !seen) && c.system[key].Value == s.Value
		}
	}
	maps.DeleteFunc(drivers, func(name string, _ bool) bool {
		n, err := p.Filtered(ctx, home, name)
		return err == nil && n == 0
	})
	names := slices.Sorted(maps.Keys(drivers))
	found := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return fine(Filters, "none applies to files of the project")
	case !slices.Contains(slices.Collect(maps.Values(drivers)), false):
		return partly(Filters, found, "agents' git runs these filters; the files of a new agent are as the repository has them").
			without("in an agent, git lfs pull, or a checkout of the files, filters them", "it is done in each agent, for the files that its work needs")
	case slices.Equal(names, []string{"lfs"}):
		return partly(Filters, "lfs is configured for you, and not for the system", "agents' git does not run Git LFS: files that it has are pointers there, and new ones are no pointers").
			by("configure it for all users of this machine", "sudo git lfs install --system --skip-repo")
	}
	return partly(Filters, found, "agents' git does not run these filters, and merges that change files of theirs are not checked out").
		without("an administrator reads what the project's owner has configured (git config --get-regexp '^filter'), and sets it for the system (git config --system) only if agents and all users, root too, may run these programs",
			"git runs what the system configures as every user of this machine, and here the owner of a project has chosen the programs")
}

// sparse is about the sparse checkout of the owner, which new agents have if it is one in cone mode. No command makes it one: git deletes
// ignored files then.
func sparse(ctx context.Context, p *worktree.Project, home string) api.Finding {
	c, err := p.Cone(ctx, home)
	if err == nil && c == nil {
		return fine(Sparse, "none")
	}
	if err == nil {
		return fine(Sparse, "new agents have yours")
	}
	f := partly(Sparse, "core.sparsecheckout: "+api.Shorten(err.Error(), 300), "new agents have all files of the commit")
	which := ""
	dirs, ok := p.SparseDirs()
	if ok {
		words := make([]string, 0, len(dirs))
		for _, d := range dirs {
			words = append(words, api.PastedWord(d))
		}
		which = "; yours are " + api.Shorten(strings.Join(words, " "), 300)
	}
	f.Fix = "choose the directories of an agent (polisctl agents add --sparse), or save the ignored files outside of the directories that you need, and use a sparse checkout in cone mode (git sparse-checkout set --cone), which deletes them" + which
	if !ok {
		return f.without(f.Fix, "which directories are meant by these patterns, only you know")
	}
	return f.without(f.Fix, "git sparse-checkout set --cone deletes the ignored files, such as configuration and build results, in all other directories")
}

// probed are the settings that git-init(1) makes by what it finds out about the file system of the project.
var probed = []string{"core.filemode", "core.ignorecase", "core.symlinks"}

func (c configured) status(p *worktree.Project) api.Finding {
	keys, without := slices.Collect(maps.Keys(statusKeys)), maps.Clone(statusKeys)
	for key := range c.owner {
		if strings.HasPrefix(key, "submodule.") {
			keys, without[key] = append(keys, key), "none"
		}
	}
	agents := maps.Clone(c.system)
	delete(agents, "core.filemode") // git-init(1) writes it into each new repository, which counts before the system's
	found, commands := c.differs(p, keys, agents, without)
	if len(found) == 0 {
		return fine(Status, "as in agents")
	}
	f := partly(Status, strings.Join(found, ", "), "git status in agents can list other files as changed or new than yours")
	for _, key := range probed {
		if c.owner[key].Scope == "local" && slices.ContainsFunc(found, func(text string) bool { return strings.HasPrefix(text, key+" = ") }) {
			return f.without("in an agent, git config sets yours for that agent; in the project, change only settings that are not of its file system",
				key+" is what git has found out about the file system of the project: with another value, it can list files as changed that are not")
		}
	}
	return f.by("have your git report in this project what that of agents does; in an agent, git config sets yours for that agent", all(commands))
}
