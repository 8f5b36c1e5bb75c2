package shim

import (
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/rules/approval"
)

// mayLockTree applies the configuration's verdict about locks of directories: such a lock stops
// every other agent below it. The policy was applied before.
func (s *Shim) mayLockTree(r *http.Request, path string, req api.LockRequest) error {
	switch s.Spec.LockTrees {
	case "", setting.Allow:
		return nil
	case setting.Ask:
	case setting.Deny:
		return api.Errorf(api.CodeForbidden, "agent %s cannot lock the directory %s: locks.trees is %q for it", s.Spec.Agent, path, s.Spec.LockTrees).
			WithHint("lock the files")
	default:
		return api.Errorf(api.CodeForbidden, "locks.trees = %q is unknown to this shim, so no directory is locked", s.Spec.LockTrees)
	}
	// The mode comes first: a rule for reading must not be one for the directory of another name.
	mode := "write"
	if req.Read {
		mode = "read"
	}
	q := approval.Question{Kind: api.ApprovalLock, Text: mode + " " + path + "/", Detail: req.Reason, Note: "a lock of the directory; every other agent's change below waits or fails"}
	if req.ForSeconds > 0 {
		q.Note += "; asked for " + (time.Duration(req.ForSeconds) * time.Second).String()
	}
	q.PID, q.Program = caller(r)
	id, a, err := s.ask(r.Context(), q, usualAnswerWait)
	if err != nil || a.Verdict == api.VerdictApprove {
		return err
	}
	return s.notApproved(q, id, a, "lock", "locks.trees")
}
