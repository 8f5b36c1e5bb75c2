package git

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimitsAreSet(t *testing.T) {
	l := &Limits{AddressSpace: 1 << 30, FileSize: 1 << 20, CPU: 7 * time.Second}
	program, args := l.command("cat", []string{"/proc/self/limits"})
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	for what, want := range map[string]string{"Max address space": "1073741824", "Max file size": "1048576", "Max cpu time": "7", "Max core file size": "0"} {
		_, rest, ok := strings.Cut(string(out), what)
		require.True(t, ok)
		require.Equal(t, []string{want, want}, strings.Fields(rest)[:2], what)
	}
	program, args = (*Limits)(nil).command("git", []string{"x"})
	require.Equal(t, []string{"git", "x"}, append([]string{program}, args...))
}
