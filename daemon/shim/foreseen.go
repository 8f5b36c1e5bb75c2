package shim

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/approval"
	"polis/fusefs/policy"
	"polis/lockd"
)

// foreseeTime bounds the look at leases before a tool is used.
const foreseeTime = 2 * time.Second

// foreseen is a refusal that the tool would meet: its model gets the reason before the call, and not
// an errno after it. It is "" if nothing is known against it; the view decides all the same.
func (s *Shim) foreseen(ctx context.Context, q approval.Question) string {
	if q.Class != api.ToolRead && q.Class != api.ToolEdit || !filepath.IsLocal(q.Text) || filepath.Clean(q.Text) == "." {
		return ""
	}
	d := s.views.guard.Policy().DecideThrough(q.Text, false)
	if q.Class == api.ToolRead {
		if d.Read == policy.Deny || d.Read == policy.Hide {
			return fmt.Sprintf("the policy of agent %s does not allow it to read %s; /run/polis/policy has the rules", s.Spec.Agent, q.Text)
		}
		return ""
	}
	if d.Write == policy.Deny || d.Write == policy.Hide {
		return fmt.Sprintf("the policy of agent %s does not allow it to change %s; /run/polis/policy has the rules", s.Spec.Agent, q.Text)
	}
	ctx, cancel := context.WithTimeout(ctx, foreseeTime)
	defer cancel()
	leases, err := s.views.locks.Holders(ctx, lockd.FileKey(q.Text))
	if err != nil {
		s.Log.Debug("leases not read", "err", err) // the call itself will tell
		return ""
	}
	for _, l := range leases {
		if l.Holder != s.Spec.Agent {
			return fmt.Sprintf("%s is locked by %s since %s; work on something else, or run polisctl wait %s first", q.Text, l.Holder, l.Since.UTC().Format(time.RFC3339), q.Text)
		}
	}
	return ""
}
