package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/opens"
	"polis/daemon/store/layout"
	"polis/fusefs"
	"polis/fusefs/view"
)

const (
	// opensWait bounds how long a request for opens waits, and opensPause is how long more are
	// collected after the first one.
	opensWait  = 20 * time.Second
	opensPause = 200 * time.Millisecond
)

// openAudit prepares the recording of opens, if the spec wants it. What polisd has not fetched when the
// shim ends is left in a file. Until then the file says that the shim has not ended.
func (s *Shim) openAudit() error {
	s.recording.Store(s.Spec.Record)
	if s.Spec.Audit == "" {
		return nil
	}
	life := uint64(s.started.UnixNano())
	s.opens = &opens.Recorder{Life: life, Deny: s.Spec.AuditDeny, Now: time.Now, Task: func() string {
		if id := s.auditTask.Load(); id != nil {
			return *id
		}
		return ""
	}}
	if err := s.leaveOpens(wire.Opens{Life: life, Unfinished: true}); err != nil {
		return err
	}
	s.opens.Open()
	s.onClose("records of opens", func(ctx context.Context) error {
		return errors.Join(s.opens.Close(ctx), s.leaveOpens(s.opens.Rest()))
	})
	return nil
}

// leaveOpens writes the file that polisd reads when the shim has ended.
func (s *Shim) leaveOpens(o wire.Opens) error {
	b, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(layout.ShimOpens(s.Spec.RunDir), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("leave the records of opens for polisd: %w", err)
	}
	return nil
}

// auditor returns the auditor of the tree; nil for none.
func (s *Shim) auditor() fusefs.Auditor {
	var all []fusefs.Auditor
	if s.opens != nil {
		all = append(all, &auditor{Recorder: s.opens, s: s})
	}
	return opens.Tee(all...)
}

// gitAuditor returns the auditor of the git directory; nil for none.
func (s *Shim) gitAuditor() fusefs.Auditor {
	if s.opens == nil || s.Spec.Audit != wire.AuditFull { // rules are about the tree
		return nil // not a nil *gitAuditor
	}
	return &gitAuditor{auditor{Recorder: s.opens, s: s}}
}

// auditor reports what is refused because it cannot be recorded.
type auditor struct {
	*opens.Recorder
	s *Shim
}

func (a *auditor) Reserve() syscall.Errno {
	e := a.Recorder.Reserve()
	if e != 0 && a.Refused() {
		a.s.denied(view.Denial{Time: time.Now(), Op: "open", Path: "any file", Code: string(api.CodeAuditFull), Errno: "EIO",
			Rule: "everything that this agent opens must be recorded, and polisd has not stored the last records (audit_on_full is \"deny\")"})
	}
	return e
}

// usedName records a name that was resolved, if a policy is learned.
func (s *Shim) usedName(name string) {
	s.breakers.Resolved(name)
	if s.opens != nil && s.recording.Load() {
		s.opens.Note(0, api.Open{Op: wire.OpResolve, Path: name})
	}
}

// noteRefused records what the rules refused, if a policy is learned. Leases and limits are no rules.
func (s *Shim) noteRefused(d view.Denial) {
	if s.opens == nil || !s.recording.Load() {
		return
	}
	o := api.Open{Op: wire.OpReadDenied, Path: d.Path}
	switch d.Code {
	case view.CodeUndeclaredRead:
	case view.CodeUndeclaredWrite, view.CodeNotApproved:
		switch op := fusefs.Op(d.Op); op {
		case fusefs.OpOpenRead, fusefs.OpReadlink, fusefs.OpGetxattr, fusefs.OpListxattr:
		default:
			o.Op, o.Write, o.Dir = wire.OpWriteDenied, true, op == fusefs.OpMkdir || op == fusefs.OpRmdir
		}
	default:
		return
	}
	s.opens.Note(d.Pid, o)
}

// gitAuditor records when an object or a ref gets its name; everything else in the git directory is
// git's own bookkeeping.
type gitAuditor struct{ auditor }

func (g *gitAuditor) Record(c fusefs.Caller, op fusefs.Op, _ bool, targets ...fusefs.Target) {
	last := ""
	if len(targets) > 0 {
		last = targets[len(targets)-1].Path
	}
	published := strings.HasPrefix(last, "refs/") || strings.HasPrefix(last, "objects/")
	if !published || op != fusefs.OpRename && op != fusefs.OpLink || strings.HasSuffix(last, ".lock") {
		g.Release()
		return
	}
	g.auditor.Record(c, op, true, fusefs.Target{Path: filepath.Join(".git", last)})
}

// handleOpens is GET /v1/opens.
func (s *Shim) handleOpens(w http.ResponseWriter, r *http.Request) error {
	if s.opens == nil {
		return api.Errorf(api.CodeNotFound, "opens of agent %s are not recorded", s.Spec.Agent)
	}
	if r.URL.Query().Has("count") {
		return writeJSON(w, s.opens.Count())
	}
	var n [2]uint64
	for i, key := range []string{"life", "after"} {
		v, err := strconv.ParseUint(r.URL.Query().Get(key), 10, 64)
		if err != nil {
			return api.Errorf(api.CodeBadRequest, "%s is not a number: %q", key, api.Shorten(r.URL.Query().Get(key), 32))
		}
		n[i] = v
	}
	wait := opensWait
	if r.URL.Query().Has("now") {
		wait = 0
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), wait, errors.New("nothing was opened"))
	defer cancel()
	return writeJSON(w, s.opens.Fetch(ctx, n[0], n[1], opensPause))
}
