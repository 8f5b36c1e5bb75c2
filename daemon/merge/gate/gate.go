package gate

import (
	"fmt"
	"path"
	"strings"

	"polis/fusefs/policy"
)

// Rules are what one agent's work is compared with. The zero value lets
// everything through.
type Rules struct {
	// Policy is the agent's own; nil limits nothing.
	Policy *policy.Set
	// Others are the exclusive paths of the other agents of the workspace.
	Others []Claim
	// Protected are the paths that need a person's acceptance. Reasons has the reasons of patterns that have one.
	Protected Protected
	Reasons   map[string]string
	// Approved reports that a person has approved a change at the system call, so that a rule "ask" does not
	// ask about it again. nil knows of none.
	Approved func(Change) bool
}

// Claim is what another agent has for itself.
type Claim struct {
	Agent string
	Paths Patterns
}

// Finding is a path that is not merged without a person, and the rule that it breaks.
type Finding struct{ Path, Why string }

func (f Finding) String() string { return fmt.Sprintf("%q (%s)", f.Path, f.Why) }

// Verdict is the result of Rules for a list of changes. A path is in one of the two
// lists at most.
type Verdict struct {
	// Undeclared are outside of the agent's rules. No acceptance lets them through.
	Undeclared []Finding
	// Protected are merged after a person accepts them.
	Protected []Finding
}

// Judge compares changes with the rules.
func (r Rules) Judge(changes []Change) Verdict {
	var v Verdict
	for _, c := range changes {
		if why := r.undeclared(c); why != "" {
			v.Undeclared = append(v.Undeclared, Finding{c.Path, why})
		} else if why := r.protected(c); why != "" {
			v.Protected = append(v.Protected, Finding{c.Path, why})
		}
	}
	return v
}

// undeclared returns the rule that withholds a change from the agent, "" if none does.
func (r Rules) undeclared(c Change) string {
	for _, o := range r.Others {
		if p, ok := o.Paths.Covers(c.Path); ok {
			return fmt.Sprintf("exclusive %q of agent %s", p, o.Agent)
		}
	}
	if r.Policy == nil {
		return ""
	}
	// As a file and, for what git has as a gitlink, as a directory: a rule such as
	// "vendor/" must hold for both.
	for _, dir := range []bool{false, true} {
		if dir && c.Old != ModeGitlink && c.New != ModeGitlink {
			continue
		}
		switch d := r.Policy.Decide(c.Path, dir); d.Write {
		case policy.Allow, policy.Ask:
		default:
			if d.Rule == "" {
				return "no write rule covers it"
			}
			return d.Rule
		}
	}
	if c.New != ModeLink || c.TooLong {
		return ""
	}
	// Reading a link returns its target's content.
	if to, inside := leads(c.Path, c.Target); inside && to != "" {
		// The link may lead to a directory: then to every name below it, too.
		for _, name := range []string{to, to + "/_"} {
			if d := r.Policy.Decide(name, false); d.Read != policy.Allow && d.Read != policy.Ask {
				return fmt.Sprintf("a link to %q, which the agent may not read", to)
			}
		}
	}
	return ""
}

// always returns the reason why a person has to accept a change whatever the protected paths are, "" if there is none.
func (r Rules) always(c Change) string {
	if r.Policy != nil {
		if d := r.Policy.Decide(c.Path, false); d.Write == policy.Ask && (r.Approved == nil || !r.Approved(c)) {
			return d.Rule
		}
	}
	switch {
	case c.Old == ModeGitlink || c.New == ModeGitlink:
		return "a submodule"
	case c.New != ModeNone && fold(path.Base(c.Path)) == "head":
		// With objects and refs beside it, the directory is a repository, whose config has commands.
		return "a repository within the repository: git runs the commands of its config in that directory"
	case c.New != ModeLink:
		return ""
	case c.TooLong:
		return "a link of more than 4096 bytes"
	}
	if to, inside := leads(c.Path, c.Target); !inside {
		return fmt.Sprintf("a link out of the repository, to %q", short(c.Target))
	} else if to == ".git" || strings.HasPrefix(to, ".git/") {
		return fmt.Sprintf("a link into the git directory, to %q", short(c.Target))
	}
	return ""
}

// leads resolves the text of a link at a path, without reading other links.
// inside is true if it stays in the repository; to is "" for its root.
func leads(at, target string) (to string, inside bool) {
	if target == "" || strings.HasPrefix(target, "/") || strings.ContainsRune(target, 0) {
		return "", false
	}
	to = path.Join(path.Dir(at), target)
	if to == ".." || strings.HasPrefix(to, "../") {
		return "", false
	}
	if to == "." {
		to = ""
	}
	return to, true
}

func short(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
