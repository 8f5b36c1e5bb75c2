package projectcheck

import (
	"strings"

	"polis/daemon/api"
	"polis/daemon/git/worktree"
)

// partial is what works only in part. It is a row once it has a remedy: one command that a person can paste, or the reason why
// there is none.
type partial api.Finding

func partly(name, found, cost string) partial {
	return partial{Area: api.AreaGit, Name: name, Found: api.Shorten(found, maxFound), Works: api.WorksPartly, Cost: cost}
}

// by adds what to do, and the command that does it.
func (f partial) by(fix, command string) api.Finding {
	f.Fix, f.Command = fix, command
	return api.Finding(f)
}

// without adds what to do, and why no command does it.
func (f partial) without(fix, why string) api.Finding {
	f.Fix, f.NoCommand = fix, why
	return api.Finding(f)
}

// unknown is a row about what cannot be read.
func unknown(name string, err error) api.Finding {
	return partly(name, err.Error(), "polis cannot tell what agents lack of it").
		without("make it readable for the owner of the project", "what is in the way is not known, beside the error")
}

// in is the beginning of a command of git in a project.
func in(p *worktree.Project) string { return "git -C " + api.PastedWord(p.Path) + " " }

// set is a command that sets a key in the project's own configuration, or in that of its worktree, which counts more.
func set(p *worktree.Project, key, value, scope string) string {
	where := ""
	if scope == "worktree" {
		where = "--worktree "
	}
	return in(p) + "config " + where + "--replace-all " + api.PastedWord(key) + " " + api.PastedWord(value)
}

// all is one command of several, of which each is run if those before it succeeded.
func all(commands []string) string { return strings.Join(commands, " && ") }

// configure is a command that sets a key of polisd's configuration.
func (p Project) configure(key, value string) string {
	command := "sudo polisctl config set " + key + " " + api.PastedWord(value)
	if p.Reload != "" {
		command += " && " + p.Reload
	}
	return command
}
