package systemd

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxExposure bounds what systemd-analyze security computes of polisd.service, from 0 to 10. A service
// that makes namespaces, mounts and networks for others, and may not have a mount namespace of its own,
// cannot have a low one; without the unit's settings it is 9.6.
const maxExposure = 7.5

// hardened requires that the running polisd has what its unit restricts, and records the exposure.
func hardened(t *testing.T) {
	out := must(t, "systemd-analyze security --no-pager polisd.service")
	m := regexp.MustCompile(`Overall exposure level for polisd.service: ([0-9.]+)`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	score, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	t.Logf("exposure of polisd.service: %s", m[1])
	require.LessOrEqual(t, score, maxExposure, out)

	status := readFile(t, fmt.Sprintf("/proc/%d/status", pid(t, "polisd")))
	require.Regexp(t, `(?m)^Seccomp:\t2$`, status)
	m = regexp.MustCompile(`(?m)^CapBnd:\t([0-9a-f]+)$`).FindStringSubmatch(status)
	require.NotNil(t, m, status)
	bounding, err := strconv.ParseUint(m[1], 16, 64)
	require.NoError(t, err)
	require.Zero(t, bounding&(1<<16), "CAP_SYS_MODULE")
	require.NotZero(t, bounding&(1<<21), "CAP_SYS_ADMIN")
	// An agent's shim has no filter of the unit: see polisd.service.
	require.Regexp(t, `(?m)^Seccomp:\t0$`, readFile(t, fmt.Sprintf("/proc/%d/status", pid(t, "polis-agent@alice"))))
}
