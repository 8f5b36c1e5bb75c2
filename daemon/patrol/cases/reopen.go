package cases

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/patrol/verdict"
)

// kindOf is the kind of a case. An agent that is stalled can spin next, and the reverse: that is one kind.
func kindOf(c api.Case) string {
	if c.Kind == string(api.PatrolSpinning) {
		return string(api.PatrolStalled)
	}
	return c.Kind
}

// reopened returns the case that c opens again; nil if there is none.
func reopened(all []api.Case, c api.Case, now time.Time) *api.Case {
	if kindOf(c) != string(api.PatrolStalled) {
		return nil
	}
	for i := range all {
		if o := &all[i]; same(*o, c) && o.Resolution != nil && o.Resolution.By == "" && now.Sub(o.Resolution.At) < verdict.ReopenTime {
			return o
		}
	}
	return nil
}
