package main

import (
	"slices"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// ruleFlags are the path rules of an agent, as typed.
type ruleFlags struct {
	read, write, ask, deny, hide, exclusive []string
	temp                                    bool
}

func (f *ruleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.read, "read", nil, "allow reading what matches `GLOB`; may be repeated")
	flags.StringArrayVar(&f.write, "write", nil, "allow reading and writing what matches `GLOB`; may be repeated")
	flags.StringArrayVar(&f.deny, "deny", nil, "refuse what matches `GLOB`; may be repeated")
	flags.StringArrayVar(&f.hide, "hide", nil, "hide what matches `GLOB`; may be repeated")
}

// registerOwn adds the rules that only a person gives: a worker is started with those of its parent.
func (f *ruleFlags) registerOwn(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.ask, "ask", nil, "a person answers before the agent reads or writes what matches `GLOB`; may be repeated")
	cmd.Flags().StringArrayVar(&f.exclusive, "exclusive", nil, "reserve what matches `GLOB` for this agent: no other agent may write it or merge a change of it; may be repeated")
}

// noRules is the word of agents set for a list without rules of the agent's own.
const noRules = "none"

// reset takes the word none out of the lists in which it can stand, and returns their names.
func (f *ruleFlags) reset() ([]string, error) {
	isNone := func(glob string) bool { return glob == noRules }
	for _, r := range []struct {
		flag  string
		globs []string
	}{{"--read", f.read}, {"--write", f.write}} {
		if slices.ContainsFunc(r.globs, isNone) {
			return nil, usagef("%s none: an agent without such rules could do everything", r.flag).
				WithHint("--role ROLE replaces all rules; /none is a file of that name")
		}
	}
	var out []string
	for _, r := range []struct {
		name  string
		globs *[]string
	}{{"ask", &f.ask}, {"deny", &f.deny}, {"hide", &f.hide}, {"exclusive", &f.exclusive}} {
		if slices.ContainsFunc(*r.globs, isNone) {
			*r.globs = slices.DeleteFunc(slices.Clone(*r.globs), isNone)
			out = append(out, r.name)
		}
	}
	return out, nil
}

// policy returns nil if no rule is given: the rules of the role apply then.
func (f *ruleFlags) policy() (*api.Policy, error) {
	for _, r := range []struct {
		flag  string
		globs []string
	}{{"--read", f.read}, {"--write", f.write}, {"--ask", f.ask}, {"--deny", f.deny}, {"--hide", f.hide}, {"--exclusive", f.exclusive}} {
		if err := checkRules(r.flag, r.globs); err != nil {
			return nil, err
		}
	}
	if len(f.read)+len(f.write)+len(f.ask)+len(f.deny)+len(f.hide)+len(f.exclusive) == 0 && !f.temp {
		return nil, nil
	}
	return &api.Policy{Read: f.read, Write: f.write, Ask: f.ask, Deny: f.deny, Hide: f.hide, Exclusive: f.exclusive, Temp: f.temp}, nil
}
