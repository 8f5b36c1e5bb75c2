package view

import (
	"slices"
	"strings"
	"sync"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/tempfile"
)

// tempKey is the configuration key that permits temporary files.
const tempKey = "locks.temp_files"

// tempUse is an operation on temporary files that the rules allow, and its ticket.
type tempUse struct {
	g  *Guard
	c  fusefs.Caller
	op fusefs.Op
	// old are the temporary files that the operation changes, removes or renames.
	old []*tempfile.File
	// made is the path of the temporary file that it makes, if not "", and of the name of what is renamed to it.
	made, of string
	// linked is the name that the file old[0] gets beside its own.
	linked string
	// leased are the targets that are no temporary files.
	leased []fusefs.Target
	// over means that made may be the name of a file. plain is the path of one that must have no mark; see aside.
	over  bool
	plain string

	inner fusefs.Ticket
	once  sync.Once
}

var (
	_ fusefs.Temporary = (*tempUse)(nil)
	_ fusefs.Validator = (*tempUse)(nil)
	_ fusefs.Failer    = (*tempUse)(nil)
)

// temporary decides again about an operation that the rules refuse, with what they say of temporary files. Without
// a tempUse it stays refused; reason is then why it is not an operation on temporary files, or "".
func (g *Guard) temporary(c fusefs.Caller, op fusefs.Op, targets []fusefs.Target, v *verdicts) (u *tempUse, reason string) {
	if g.cfg.Temps == nil {
		return nil, ""
	}
	if v.bad == nil {
		return g.aside(c, op, targets, v)
	}
	if g.cfg.NoTemps || v.bad.hidden {
		return nil, ""
	}
	for _, t := range targets {
		if t.Dir || t.Tree {
			return nil, ""
		}
	}
	u = &tempUse{g: g, c: c, op: op}
	again := verdicts{set: v.set}
	ok := false
	switch op {
	case fusefs.OpCreate, fusefs.OpMknod:
		ok = len(targets) == 1 && g.tempFile(v.set, targets[0].Path) && g.cfg.Temps.Absent(targets[0].Path)
		u.made = targets[0].Path
	case fusefs.OpRename:
		ok, reason = u.rename(targets[0], targets[1], &again)
	case fusefs.OpExchange:
		if u.existing(targets, &again); len(u.old) > 0 {
			reason = notExchanged
		}
	case fusefs.OpLink:
		ok, reason = u.link(targets[0], targets[1:], &again)
	case fusefs.OpUnlink, fusefs.OpOpenWrite, fusefs.OpSetattr, fusefs.OpFallocate, fusefs.OpCopyRange, fusefs.OpSetxattr, fusefs.OpRemovexattr, fusefs.OpIoctl:
		if ok = u.existing(targets, &again); ok && op != fusefs.OpUnlink && !u.allNames(targets) {
			ok, reason = false, otherNames
		}
	}
	if !ok {
		u.close()
		return nil, reason
	}
	*v = again
	return u, ""
}

// existing decides about names that exist: each is a temporary file, or one that the rules allow.
func (u *tempUse) existing(targets []fusefs.Target, v *verdicts) bool {
	for _, t := range targets {
		if !u.take(t, v) {
			v.add(u.op, t)
			u.leased = append(u.leased, t)
		}
	}
	return len(u.old) > 0 && v.bad == nil
}

// allNames takes the leases of the other names of what changes, and reports whether they are known. The file system
// calls with the names that it knows: after a restart, that of a file to which a temporary file was linked can be missing.
func (u *tempUse) allNames(targets []fusefs.Target) bool {
	f, names := u.old[0], uint64(len(targets))
	if f.Links <= names {
		return true
	}
	other := fusefs.Target{Path: beside(f.Path, f.Of)}
	if f.Of == "" || slices.Contains(targets, other) || !u.g.cfg.Temps.At(f, other.Path) {
		return false
	}
	u.leased = append(u.leased, other)
	return f.Links <= names+1
}

// take adds a name if it is that of a temporary file, and decides about the file that was renamed to it.
func (u *tempUse) take(t fusefs.Target, v *verdicts) bool {
	if !u.g.tempFile(v.set, t.Path) {
		return false
	}
	f := u.g.cfg.Temps.Look(t.Path)
	if f == nil {
		return false
	}
	u.old = append(u.old, f)
	if f.Of != "" {
		v.add(u.op, fusefs.Target{Path: beside(t.Path, f.Of)})
	}
	return true
}

const (
	onlyToWritable = "a temporary file can only be renamed to a file that the rules let you write (" + tempKey + ")"
	onlyBeside     = "a file can be renamed to a temporary name only in its own directory (" + tempKey + ")"
	notAsked       = "a file that a rule asks about cannot be renamed to a temporary name (" + tempKey + ")"
	notExchanged   = "a temporary file cannot be exchanged with another (" + tempKey + ")"
	otherNames     = "a temporary file that has another name can only be changed by that (" + tempKey + ")"
	onlyLinked     = "a temporary file can only be linked to a file of its directory that the rules let you write (" + tempKey + ")"
)

// rename decides about the rename of a temporary file to another file, and of another file to a temporary name.
func (u *tempUse) rename(from, to fusefs.Target, v *verdicts) (ok bool, reason string) {
	if u.take(from, v) {
		if v.add(u.op, to); u.g.unknownName(v.set, to.Path) {
			return false, onlyToWritable // it would have no mark there
		}
		u.leased = []fusefs.Target{to}
		return v.bad == nil, onlyToWritable
	}
	v.add(u.op, from)
	if v.bad != nil || !u.g.tempFile(v.set, to.Path) {
		return false, ""
	}
	u.leased, u.made, u.of = []fusefs.Target{from}, to.Path, from.Path[strings.LastIndexByte(from.Path, '/')+1:]
	if !u.take(to, v) && !u.g.cfg.Temps.Absent(to.Path) {
		return false, ""
	}
	switch {
	case beside(to.Path, u.of) != from.Path:
		return false, onlyBeside
	case len(v.asked) > 0:
		return false, notAsked
	}
	return v.bad == nil, ""
}

// link decides about another name of a temporary file: it is as a rename, and the temporary name stays.
func (u *tempUse) link(name fusefs.Target, of []fusefs.Target, v *verdicts) (ok bool, reason string) {
	if !u.existing(of, v) {
		return false, ""
	}
	v.add(u.op, name)
	u.leased = append(u.leased, name)
	u.linked = name.Path[strings.LastIndexByte(name.Path, '/')+1:]
	f := u.old[0]
	if v.bad != nil || len(u.old) > 1 || u.g.unknownName(v.set, name.Path) || beside(f.Path, u.linked) != name.Path || f.Of != "" && f.Of != u.linked {
		return false, onlyLinked
	}
	return true, ""
}

// tempFile reports whether a file of this path can be a temporary one: the rules allow it, and no branch has the path.
// What git checks out is no temporary file.
func (g *Guard) tempFile(set *policy.Set, path string) bool {
	return set.TempFile(path, g.cfg.Temps.Directory) && (g.cfg.Tracked == nil || !g.cfg.Tracked(path))
}

// beside returns the path of another name in the directory of a path.
func beside(path, name string) string { return path[:strings.LastIndexByte(path, '/')+1] + name }

// readTemp returns the decision about reading a path that may be a temporary file, after the rules' own: a file that
// the agent made is its own, and one that was renamed is read by the rules of its former name.
func (g *Guard) readTemp(set *policy.Set, path string, d policy.Decision) policy.Decision {
	if g.cfg.Temps == nil || d.Explicit() {
		return d
	}
	_, known := g.cfg.Temps.Known(path)
	may := g.tempFile(set, path)
	if !known && !may && !g.unknownName(set, path) {
		return d
	}
	// The mark of the file decides, not the table: its record can be lost with the machine.
	f := g.cfg.Temps.Look(path)
	if f == nil {
		return d
	}
	defer f.Close()
	switch {
	case f.Of != "" && (may && !g.cfg.NoTemps || d.Read == policy.Allow):
		return set.DecideThrough(beside(path, f.Of), false)
	case may && !g.cfg.NoTemps:
		return policy.Decision{Read: policy.Allow, Write: d.Write, Rule: d.Rule}
	}
	return d
}

// tempVerdict changes what can be cached of a path if it is one of a temporary file: whether it may be read depends on
// the file, and what is open stays open.
func (g *Guard) tempVerdict(set *policy.Set, path string, s fusefs.CachedVerdict) fusefs.CachedVerdict {
	of, known := g.cfg.Temps.Known(path)
	may := set.TempFile(path, nil) // without Tracked, which may read a file
	if known || may || g.unknownName(set, path) {
		s &^= fusefs.Readable // Read checks the mark
	}
	if !known {
		return s
	}
	d := policy.Decision{Read: policy.Allow, Write: policy.Allow}
	switch {
	case of != "":
		d = set.DecideThrough(beside(path, of), false)
	case !may || g.cfg.NoTemps:
		return s
	}
	if d.Read == policy.Allow || d.Read == policy.Ask {
		if may && !g.cfg.NoTemps {
			s &^= fusefs.Unreadable
		}
	} else {
		s |= fusefs.Unreadable
	}
	if may && (d.Write == policy.Allow || d.Write == policy.Ask) && !g.cfg.ReadOnly && !g.cfg.NoTemps {
		s &^= fusefs.Unwritable
	}
	return s
}

// Unlinked implements fusefs.UnlinkedGuard: what is open and has no name any more is used as a temporary file if it was
// one.
func (g *Guard) Unlinked(path string, fd int) (rules string, ok bool) {
	set := g.set.Load()
	if g.cfg.Temps == nil || set.DecideThrough(path, false).Explicit() {
		return "", false
	}
	of, ok := tempfile.Marked(fd, path)
	switch {
	case !ok:
		return "", false
	case of != "":
		return beside(path, of), true
	}
	return "", g.ownUnlinked(set, path)
}

// ownUnlinked reports whether an unlinked file is one that the agent made as a temporary one.
func (g *Guard) ownUnlinked(set *policy.Set, path string) bool {
	return g.cfg.Temps != nil && !g.cfg.NoTemps && set.TempFile(path, nil)
}

// permitTemps makes ordinary files of the temporary files that the rules now let the agent write.
func (g *Guard) permitTemps(set *policy.Set) {
	err := g.cfg.Temps.Permit(func(path string) bool {
		return set.DecideThrough(path, false).Write == policy.Allow && !g.unknownName(set, path)
	})
	if err != nil {
		g.cfg.Log.Warn("marks of temporary files not removed", "agent", g.cfg.Agent, "err", err)
	}
}

// tempHint returns the hint of a refusal to make a file that could be a temporary one.
func (g *Guard) tempHint(set *policy.Set, op fusefs.Op, path string) string {
	if g.cfg.Temps != nil && !g.cfg.NoTemps || op != fusefs.OpCreate && op != fusefs.OpMknod || !g.tempFile(set, path) {
		return ""
	}
	return "your policy lets you write single files of this directory, and make no others while " + tempKey + " is off: write them in place, or ask the administrator to set it"
}
