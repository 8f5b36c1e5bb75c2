package agenttext

import (
	"strings"
	"time"

	"polis/daemon/api"
)

// StepEnd is how the call of a step ended, to be put behind its text: "  (passed, 12s)"; "" if that is not known.
func StepEnd(st api.Step) string {
	var parts []string
	if st.Passed {
		parts = append(parts, "passed")
	}
	if took := time.Duration(st.Took * float64(time.Second)); took >= time.Second {
		parts = append(parts, Span(took))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}
