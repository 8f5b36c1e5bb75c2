package metrics

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

func up(s api.Status) bool { return s == api.StatusIdle || s == api.StatusRunning }

// Summary returns the line for systemctl status. lost are the names of the missing isolation.
func Summary(workspaces int, agents []api.Status, leases int, lost []string) string {
	n := 0
	for _, s := range agents {
		if up(s) {
			n++
		}
	}
	degraded := ""
	if len(lost) > 0 {
		degraded = "isolation DEGRADED (no " + strings.Join(lost, ", ") + "), "
	}
	return degraded + fmt.Sprintf("%s, %s (%d up), %s", api.Count(workspaces, "workspace"), api.Count(len(agents), "agent"), n, api.Count(leases, "lease"))
}
