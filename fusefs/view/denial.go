package view

import (
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// refuse counts and reports a refusal by policy.
func (g *Guard) refuse(c fusefs.Caller, op fusefs.Op, write bool, d Denial, errno syscall.Errno) syscall.Errno {
	if write {
		g.stats.writeDenied.Add(1)
	} else {
		g.stats.readDenied.Add(1)
	}
	if d.Code == CodeHidden {
		return g.report(g.cfg.OnHidden, c, op, d, errno)
	}
	if g.cfg.Refused != nil && d.Code != CodeQuota && d.Code != CodeTooLarge {
		d.Op, d.Pid = string(op), c.Pid
		g.cfg.Refused(d)
	}
	return g.report(g.cfg.OnDenial, c, op, d, errno)
}

// HiddenRefused implements fusefs.HiddenRefuser.
func (g *Guard) HiddenRefused(c fusefs.Caller, op fusefs.Op, t fusefs.Target) {
	_ = g.refuse(c, op, true, Denial{Path: t.Path, Code: CodeHidden, Rule: g.set.Load().DecideThrough(t.Path, t.Dir).Rule}, syscall.ENOENT) //nolint:errcheck // it is the errno that the kernel has got
}

// report passes a refusal to one of the callbacks.
func (g *Guard) report(to func(Denial), c fusefs.Caller, op fusefs.Op, d Denial, errno syscall.Errno) syscall.Errno {
	if to == nil {
		return errno
	}
	d.Time, d.Op, d.Pid = g.cfg.Now(), string(op), c.Pid
	if d.Errno = unix.ErrnoName(errno); d.Errno == "" {
		d.Errno = errno.Error()
	}
	if d.Hint == "" {
		d.Hint = hint(d)
	}
	to(d)
	return errno
}

// writeRule returns the rule that refused a write. A rule that only allows to read the path is not
// the reason.
func writeRule(rule string) string {
	if strings.HasPrefix(rule, "read ") {
		return "no rule to write names it, only " + rule
	}
	return rule
}

// lockedHint returns what the user can do about a lock. until says how long it is held.
func lockedHint(d Denial, until string) string {
	if until != "" {
		until = " " + until
	}
	path := d.Path
	if strings.ContainsFunc(path, func(r rune) bool {
		return r != '/' && r != '.' && r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		path = "PATH" // the shell would read it otherwise
	}
	if strings.HasPrefix(d.Holder, "user:") { // a user locked it with polisctl
		return fmt.Sprintf("the administrator has locked it%s; work on something else, or wait for it: polisctl wait %s", until, path)
	}
	return fmt.Sprintf("agent %s holds it%s; work on something else, or: polisctl wait %s. locks.exempt is for files that need no lock", d.Holder, until, path)
}

// hint returns what the user can do next.
func hint(d Denial) string {
	switch d.Shown() {
	case ShownDeniedRead:
		return "a rule of your policy denies reading this path; work with other paths, or ask the administrator to change the rule"
	case ShownDeniedWrite:
		return "a rule of your policy denies changing this path; work in other paths, or ask the administrator to change the rule"
	case CodeFileLocked:
		return lockedHint(d, "")
	case CodeLockdUnavailable:
		return "polisd cannot be reached just now; try again in a few seconds"
	case CodeUndeclaredRead:
		return "your policy does not let you read this path; work with the declared paths, or ask the administrator to widen the policy"
	case CodeUndeclaredWrite:
		return "your policy does not let you change this path; work in the declared paths, or ask the administrator to widen the policy"
	case CodeReadOnly:
		return "you are read-only: you can read the files of a commit, and write in $HOME and /tmp"
	case CodeNotApproved:
		return "this path needs an approval, which was not given"
	case CodePathTraversal:
		return "use a path inside the worktree"
	case CodeTooLarge:
		return "use shorter names or fewer directories; git and most programs have the same bound"
	case CodeQuota:
		return "this is a bound of your own: end or commit what you do not need, then try again"
	}
	return ""
}
