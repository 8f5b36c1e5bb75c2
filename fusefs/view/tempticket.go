package view

import (
	"errors"
	"syscall"

	"polis/fusefs"
	"polis/fusefs/tempfile"
)

// begin makes the use the ticket of the operation, around that of its leases.
func (u *tempUse) begin(inner fusefs.Ticket) (fusefs.Ticket, syscall.Errno) {
	u.inner = inner
	if u.made == "" {
		return u, 0
	}
	err := u.g.cfg.Temps.Reserve(u.made, u.of)
	if err == nil {
		return u, 0
	}
	u.Failed()
	u.Done()
	d := Denial{Path: u.made, Code: CodeQuota, Rule: "there are as many temporary files as can be (" + tempKey + ")",
		Hint: "remove the temporary files that programs have left, then try again"}
	if !errors.Is(err, tempfile.ErrFull) {
		u.g.cfg.Log.Error("temporary file not recorded", "agent", u.g.cfg.Agent, "path", u.made, "err", err)
		d.Rule, d.Hint = "the temporary file cannot be recorded ("+tempKey+")", ""
	}
	return nil, u.g.refuse(u.c, u.op, true, d, syscall.EDQUOT)
}

// Still implements fusefs.Temporary.
func (u *tempUse) Still() bool {
	for _, f := range u.old {
		now := u.g.cfg.Temps.Look(f.Path)
		if now == nil {
			return false
		}
		same := now.Same(f)
		now.Close()
		if !same {
			return false
		}
	}
	if u.plain != "" {
		if now := u.g.cfg.Temps.Look(u.plain); now != nil {
			now.Close()
			return false
		}
	}
	return !u.Free() || u.g.cfg.Temps.Absent(u.made)
}

// Free implements fusefs.Temporary.
func (u *tempUse) Free() bool { return u.made != "" && len(u.old) == 0 && !u.over }

// Mark implements fusefs.Temporary.
func (u *tempUse) Mark(fd int) syscall.Errno {
	path, of := u.made, u.of
	if u.linked != "" {
		path, of = u.old[0].Path, u.linked
	}
	if path == "" {
		return 0
	}
	var err error
	if u.op == fusefs.OpCreate || u.op == fusefs.OpMknod {
		err = tempfile.SetNew(fd, path)
	} else {
		err = tempfile.Set(fd, path, of)
	}
	if err != nil {
		d := Denial{Path: path, Code: CodeUndeclaredWrite, Rule: "only a regular file can be temporary (" + tempKey + ")"}
		if fd >= 0 && !errors.Is(err, syscall.EINVAL) {
			d.Rule = "the file system below the worktree cannot mark temporary files (" + tempKey + ")"
			u.g.cfg.Log.Warn("temporary file not marked", "agent", u.g.cfg.Agent, "path", path, "err", err)
		}
		return u.g.refuse(u.c, u.op, true, d, syscall.EACCES)
	}
	return 0
}

// Settled implements fusefs.Temporary.
func (u *tempUse) Settled() {
	defer u.close()
	switch {
	case u.linked != "":
		u.g.cfg.Temps.Update(u.old[0].Path, u.linked)
	case len(u.old) == 0:
	case u.op == fusefs.OpRename && u.made == "", u.op == fusefs.OpUnlink:
		if now := u.g.cfg.Temps.Look(u.old[0].Path); now != nil {
			now.Close()
			return // rename(2) of a file to another name of it does nothing
		}
		u.g.cfg.Temps.End(u.old[0].Path)
		if err := tempfile.ClearNamed(u.old[0].FD); err != nil {
			// It counts under the old path only, which is the agent's own.
			u.g.cfg.Log.Warn("mark of a temporary file not removed", "agent", u.g.cfg.Agent, "path", u.old[0].Path, "err", err)
		}
	}
}

// Failed implements fusefs.Failer.
func (u *tempUse) Failed() {
	if u.Free() && u.g.cfg.Temps.Absent(u.made) {
		u.g.cfg.Temps.End(u.made)
	}
	if f, ok := u.inner.(fusefs.Failer); ok {
		f.Failed()
	}
}

// Valid implements fusefs.Validator.
func (u *tempUse) Valid() bool {
	v, ok := u.inner.(fusefs.Validator)
	return !ok || v.Valid()
}

// Done implements fusefs.Ticket.
func (u *tempUse) Done() {
	u.close()
	u.inner.Done()
}

func (u *tempUse) close() {
	u.once.Do(func() {
		for _, f := range u.old {
			f.Close()
		}
	})
}
