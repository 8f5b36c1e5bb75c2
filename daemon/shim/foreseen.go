package shim

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/policy"
	"polis/lockd"
)

// foreseeTime bounds the look at leases before a tool is used.
const foreseeTime = 2 * time.Second

// maxForeseen bounds the paths of one call that are looked up.
const maxForeseen = 64

// foreseen is a refusal that the tool would meet: its model gets the reason before the call, and not
// an errno after it. It is "" if nothing is known against it; the view decides all the same.
func (s *Shim) foreseen(ctx context.Context, q approval.Question) string {
	if q.Class != api.ToolRead && q.Class != api.ToolEdit {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, foreseeTime)
	defer cancel()
	for i, path := range q.Paths {
		if i == maxForeseen {
			break
		}
		if !filepath.IsLocal(path) || path == "." {
			continue
		}
		if why := s.foreseenPath(ctx, q.Class, path); why != "" {
			return why
		}
	}
	return ""
}

func (s *Shim) foreseenPath(ctx context.Context, class api.ToolClass, path string) string {
	refused := func(v policy.Verdict) bool { return v == policy.Deny || v == policy.Hide }
	d := s.views.guard.Policy().DecideThrough(path, false)
	if class == api.ToolRead {
		if refused(d.Read) {
			return fmt.Sprintf("the policy of agent %s does not allow it to read %s; /run/polis/policy has the rules", s.Spec.Agent, path)
		}
		return ""
	}
	if refused(d.Write) {
		return fmt.Sprintf("the policy of agent %s does not allow it to change %s; /run/polis/policy has the rules", s.Spec.Agent, path)
	}
	leases, err := s.views.locks.Holders(ctx, lockd.FileKey(path))
	if err != nil {
		s.Log.Debug("leases not read", "err", err) // the call itself reports it
		return ""
	}
	for _, l := range leases {
		if l.Holder != s.Spec.Agent {
			return fmt.Sprintf("%s is locked by %s since %s; work on something else, or run polisctl wait %s first", path, l.Holder, l.Since.UTC().Format(time.RFC3339), path)
		}
	}
	return ""
}
