package view

import (
	"path"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// Names such as those of "sed -i" (policy.Unknown) do not contain their destination, and the rules let the agent write
// any file of such a name if they let it write another one of the directory. A file that is renamed to such a name has
// a mark as a temporary file has, and is read by the rules of its former name. All others of such names are ordinary.

// unknownName reports whether the rules let the agent write a path only because it is such a name.
func (g *Guard) unknownName(set *policy.Set, path string) bool {
	if g.cfg.Temps == nil {
		return false
	}
	if _, kind := set.Temps().Classify(path); kind != policy.Unknown {
		return false
	}
	d := set.Decide(path, false)
	return d.Write != policy.Allow && !d.Explicit()
}

const (
	onlyBack   = "a file that was renamed to a temporary name can only be renamed to a file that the rules let you write"
	notUnder   = "a file cannot get a temporary name as another one"
	notCarried = "a directory with temporary names cannot be renamed under these rules"
	notSwapped = "a file with a temporary name cannot be exchanged with another"
)

// aside decides about an operation that the rules allow, if it gives an object such a name or takes one from it. What
// it refuses is in v; reason is then why.
func (g *Guard) aside(c fusefs.Caller, op fusefs.Op, targets []fusefs.Target, v *verdicts) (u *tempUse, reason string) {
	some := false
	for _, t := range targets {
		some = some || !t.Dir && !t.Tree && !t.Unlinked && g.unknownName(v.set, t.Path)
	}
	if !some {
		return nil, ""
	}
	u = &tempUse{g: g, c: c, op: op, leased: targets}
	switch op {
	case fusefs.OpRename:
		reason = u.renameAside(targets[0], targets[1], v)
	case fusefs.OpUnlink:
		f := g.cfg.Temps.Look(targets[0].Path)
		if f == nil {
			return nil, ""
		}
		u.old = append(u.old, f)
	case fusefs.OpExchange:
		reason = notSwapped
	case fusefs.OpLink:
		reason = u.linkAside(targets[0], targets[1:], v)
	default:
		return nil, ""
	}
	if reason == "" && v.bad == nil {
		return u, ""
	}
	if v.bad == nil {
		v.bad = &refusal{path: targets[0].Path}
	}
	u.close()
	return nil, reason
}

// renameAside decides about a rename from or to such a name.
func (u *tempUse) renameAside(from, to fusefs.Target, v *verdicts) (reason string) {
	aside := u.g.unknownName(v.set, to.Path)
	if !u.g.unknownName(v.set, from.Path) {
		u.made, u.of, u.over = to.Path, path.Base(from.Path), true
		if beside(to.Path, u.of) != from.Path {
			return onlyBeside
		}
		return ""
	}
	f := u.g.cfg.Temps.Look(from.Path)
	if f == nil {
		u.plain = from.Path
		return ""
	}
	u.old = append(u.old, f)
	if v.add(u.op, fusefs.Target{Path: beside(f.Path, f.Of)}); aside {
		return onlyBack
	}
	return ""
}

// linkAside decides about another name of a file with such a name, and about such a name for another file. Without a
// source, it is a file that had no name.
func (u *tempUse) linkAside(name fusefs.Target, of []fusefs.Target, v *verdicts) (reason string) {
	if len(of) > 0 && u.g.unknownName(v.set, name.Path) {
		return notUnder
	}
	for _, t := range of {
		if f := u.g.cfg.Temps.Look(t.Path); f != nil {
			f.Close()
			return notUnder
		}
	}
	return ""
}
