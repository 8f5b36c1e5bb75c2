package projectcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/cone"
	"polis/daemon/worktree"
)

// noIdentity is the row of an owner who has not configured one: agents have one all the same, and up does not repeat it each time.
const noIdentity = "your git has no complete identity in this project (user.name, user.email)"

func identity(ctx context.Context, o *worktree.OwnersGit) api.Finding {
	ids, err := o.Identity(ctx)
	const fix, command = "set it in the project's git, or for all of yours", "git config --global user.name 'YOUR NAME' && git config --global user.email YOU@EXAMPLE.ORG"
	const cost = "agents and merges commit with a name of their own in place of what is missing"
	if err != nil {
		return by(partly(Identity, err.Error(), cost), fix, command)
	}
	if ids.Author.Name == "" || ids.Author.Email == "" || ids.Committer.Name == "" || ids.Committer.Email == "" {
		return by(partly(Identity, noIdentity, cost), fix, command)
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
		return by(partly(IgnoreFiles, err.Error(), "agents do not ignore what this file ignores"), "move the patterns that all need to .gitignore of the project", "git config --show-origin --get-all core.excludesFile")
	}
	if n := strings.Count(patterns, "\n"); n > 0 {
		return fine(IgnoreFiles, api.Count(n, "pattern")+" beside .gitignore, which agents have too")
	}
	return fine(IgnoreFiles, "none beside .gitignore")
}

func attributes(files []string, err error) api.Finding {
	if len(files) == 0 {
		if err != nil {
			return unknown(Attributes, err)
		}
		return fine(Attributes, "none beside .gitattributes")
	}
	found, from := strings.Join(files, ", "), make([]string, 0, len(files))
	for _, f := range files {
		from = append(from, api.ShellWord(f))
	}
	if err != nil {
		found += "; " + err.Error()
	}
	return by(partly(Attributes, found, "of your git and that of agents, only one has the attributes of these files"),
		"what all need belongs into .gitattributes of the project, which you then commit", "cat "+strings.Join(from, " ")+" >> .gitattributes && git add .gitattributes")
}

// statusKeys are settings that change what git reports as changed or new, with the value that git has without them.
var statusKeys = map[string]string{"core.filemode": "true", "core.symlinks": "true", "core.ignorecase": "false", "status.showuntrackedfiles": "normal", "diff.ignoresubmodules": "none"}

// settingKeys matches the keys of which the owner's git and that of agents can have different values.
const settingKeys = `^(filter\..*\.(clean|smudge|process)|core\.(autocrlf|eol|filemode|symlinks|ignorecase)|status\.showuntrackedfiles|diff\.ignoresubmodules|submodule\..*\.ignore)$`

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

// differs returns the keys of which the owner's git has other values than agents have, with the owner's value: agents have those of
// shared, and else those of without.
func (c configured) differs(keys []string, shared map[string]worktree.OwnersSetting, without map[string]string) (out []string) {
	slices.Sort(keys)
	for _, key := range keys {
		value := func(of map[string]worktree.OwnersSetting) string {
			if s, ok := of[key]; ok {
				return normal(s.Value)
			}
			return without[key]
		}
		if value(c.owner) != value(shared) {
			out = append(out, fmt.Sprintf("%s = %s (%s)", key, api.Shorten(c.owner[key].Value, 60), c.owner[key].Scope))
		}
	}
	return out
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
func (c configured) lineEndings() api.Finding {
	found := c.differs([]string{"core.autocrlf", "core.eol"}, nil, map[string]string{"core.autocrlf": "false", "core.eol": "native"})
	if len(found) == 0 {
		return fine(LineEndings, "as in agents")
	}
	return by(partly(LineEndings, strings.Join(found, ", "), "the files of agents are made without converting line endings by it: they can have other ones there"),
		"what all need belongs into .gitattributes of the project, which you then commit", "printf '* text=auto\\n' >> .gitattributes && git add .gitattributes")
}

// filters is the row of the filter drivers that apply to files of the project.
func (c configured) filters(ctx context.Context, p *worktree.Project, home string) api.Finding {
	drivers := map[string]bool{} // with whether the system alone sets them
	for key, s := range c.owner {
		if rest, ok := strings.CutPrefix(key, "filter."); ok && s.Value != "" {
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
		return by(partly(Filters, found, "agents' git runs these filters; the files of a new agent are as the repository has them"), "in an agent, git lfs pull, or a checkout of the files, filters them",
			"polisctl agents exec AGENT -- git lfs pull")
	case slices.Equal(names, []string{"lfs"}):
		return by(partly(Filters, "lfs is configured for you, and not for the system", "agents' git does not run Git LFS: files that it has are pointers there, and new ones are no pointers"),
			"configure it for all users of this machine", "sudo git lfs install --system")
	}
	return by(partly(Filters, found, "agents' git does not run these filters, and merges that change files of theirs are not checked out"),
		"configure those that agents need, and whose programs all users have, for the system: their clean, smudge and process", "sudo git config --system --edit")
}

// sparse is about the sparse checkout of the owner, which new agents have if it is one in cone mode.
func sparse(c *cone.Cone, err error) api.Finding {
	switch {
	case err != nil:
		return by(partly(Sparse, "core.sparsecheckout: "+api.Shorten(err.Error(), 300), "new agents have all files of the commit"),
			"use a sparse checkout in cone mode, or choose the directories of an agent", "polisctl agents add NAME --sparse DIR")
	case c != nil:
		return fine(Sparse, "new agents have yours")
	}
	return fine(Sparse, "none")
}

func (c configured) status() api.Finding {
	keys, without := slices.Collect(maps.Keys(statusKeys)), maps.Clone(statusKeys)
	for key := range c.owner {
		if strings.HasPrefix(key, "submodule.") {
			keys, without[key] = append(keys, key), "none"
		}
	}
	agents := maps.Clone(c.system)
	delete(agents, "core.filemode") // git-init(1) writes it into each new repository, which counts before the system's
	found := c.differs(keys, agents, without)
	if len(found) == 0 {
		return fine(Status, "as in agents")
	}
	return by(partly(Status, strings.Join(found, ", "), "git status in agents can list other files as changed or new than yours"), "in an agent, git config sets it for that agent", "polisctl agents exec AGENT -- git config KEY VALUE")
}
