package shim

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// maxContextRules bounds how many rules of one kind the text for a model has.
const maxContextRules = 6

// contextText is what the agent's model learns of polis, in about ten lines.
func contextText(sp wire.Spec, v wire.Settings) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# polis")
	line("")
	where := "You are agent %s, in a sandbox of your own. "
	if v.Role != "" {
		where += "Your role is " + v.Role + ". "
	}
	switch {
	case sp.ReadOnly:
		line(where+"%s is a commit of the repository, and you are read-only: you cannot change a file in it (EROFS), nor commit. git show, log, diff and grep work.", sp.Agent, sp.ProjectPath)
	case sp.Git:
		line(where+"%s is your own copy of the repository, on branch %s. Commit there: polis merges the branch into %s.", sp.Agent, sp.ProjectPath, sp.Branch, cmp.Or(sp.Target, "the target"))
	default:
		line(where+"%s is the project; other agents work in it, too.", sp.Agent, sp.ProjectPath)
	}
	line("")
	line("- Files: %s", filesText(readRules(sp, v.Policy)))
	line("- A refused file is EACCES (a rule) or EBUSY (another agent has a lock). `cat %s/why` says which rule or agent it was, and what to do. Do not work around a refusal.", wire.InsideDir)
	line("- `polisctl wait PATH` waits until another agent gives a file back; `cat %s/locks` lists the locks. Locks are taken by writing.", wire.InsideDir)
	line("- `polisctl ask -- COMMAND` asks a person for a permission and waits for the answer.")
	temp := "/tmp is yours alone"
	if sp.Policy.Temp {
		temp = "$TMPDIR and /tmp are yours alone"
	}
	line("- %s. Outside of the repository nothing else can be written but $HOME.", temp)
	line("- localhost is yours alone, with all its ports. A server that you start is reachable from the host by a port map of polis.")
	line("- Network: %s.", networkText(v))
	if list := servicesText(v.Vars); list != "" {
		line("- Services, to which polis adds the key; use their addresses with ordinary programs: %s.", list)
	}
	if text := hooksText(sp.Hooks); text != "" {
		line("- %s", text)
	}
	line("- When the task is done, run `polisctl done MESSAGE`.")
	return b.String()
}

// readRules are the rules that apply to a read-only agent: a rule to write permits reading.
func readRules(sp wire.Spec, p api.Policy) api.Policy {
	if sp.ReadOnly {
		if p.Read = slices.Concat(p.Read, p.Write); len(p.Read) == 0 {
			p.Read = []string{"**"}
		}
		p.Write = nil
	}
	return p
}

// filesText describes the rules for paths of the repository.
func filesText(p api.Policy) string {
	var parts []string
	say := func(what string, rules []string) {
		if len(rules) == 0 {
			return
		}
		more := ""
		if n := len(rules) - maxContextRules; n > 0 {
			rules, more = rules[:maxContextRules], fmt.Sprintf(" and %d more", n)
		}
		quoted := make([]string, len(rules))
		for i, r := range rules {
			quoted[i] = "`" + strings.Map(func(c rune) rune {
				if c < ' ' || c == '`' {
					return '?'
				}
				return c
			}, api.Shorten(r, 100)) + "`"
		}
		parts = append(parts, what+" "+strings.Join(quoted, ", ")+more)
	}
	switch {
	case len(p.Write) > 0:
		say("you may write", p.Write)
	case len(p.Read) > 0:
		parts = append(parts, "you may write nothing")
	default:
		parts = append(parts, "you may write everything that no rule withholds")
	}
	say("you may read", p.Read)
	say("a person must approve", p.Ask)
	say("denied are", p.Deny)
	// Names of hidden paths are not for the agent.
	return strings.Join(parts, "; ") + ". All rules are in " + wire.InsideDir + "/policy."
}

// servicesText lists the services behind the gateway, which have variables of the agent.
func servicesText(vars []string) string {
	var out []string
	for _, v := range vars {
		if name, url, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, wire.ServiceEnv) {
			out = append(out, "$"+name+" ("+api.Shorten(url, 100)+")")
		}
	}
	if n := len(out) - maxContextRules; n > 0 {
		return strings.Join(out[:maxContextRules], ", ") + fmt.Sprintf(" and %d more (env | grep ^%s)", n, wire.ServiceEnv)
	}
	return strings.Join(out, ", ")
}

func networkText(v wire.Settings) string {
	switch {
	case slices.Equal(v.Egress, []string{"open"}):
		return "the internet is reachable, the host is not"
	case slices.Equal(v.Egress, []string{"none"}):
		return "nothing outside is reachable"
	case len(v.Egress) == 0:
		return "as the administrator allows"
	}
	list, more := v.Egress, ""
	if n := len(list) - maxContextRules; n > 0 {
		list, more = list[:maxContextRules], fmt.Sprintf(" and %d more (polisctl --json agents list, on the host, has all)", n)
	}
	return "only " + strings.Join(list, ", ") + more + " can be reached"
}

// writeContext writes the text for the agent's model: where all programs find it, and where the
// agent's own program reads it, if its base type names that file.
func (s *Shim) writeContext(v wire.Settings) error {
	v.Policy = s.rules(v)
	text := contextText(s.Spec, v)
	if err := replaceFile(filepath.Join(s.insideDir(), filepath.Base(wire.ContextPath)), text); err != nil {
		return err
	}
	if !filepath.IsAbs(s.Spec.Context) {
		return nil // a link in the agent's home leads to it
	}
	return s.writeManagedContext(text)
}
