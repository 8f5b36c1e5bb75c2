package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/agent"
	"polis/daemon/patrol"
)

func TestCountersAreReadAgainUnlessNothingRan(t *testing.T) {
	of := func(change func(*agent.Living)) *agent.Living {
		v := &agent.Living{InitPID: 7, Observed: patrol.Observed{Created: time.Unix(1, 0), Generation: 2, PID: 8, Sample: patrol.Sample{CPU: time.Second}}}
		change(v)
		return v
	}
	for name, tc := range map[string]struct {
		last  *agent.Living
		stood bool
	}{
		"nothing ran":                    {of(func(*agent.Living) {}), true},
		"it is measured first":           {nil, false},
		"the last measurement failed":    {of(func(v *agent.Living) { v.Err = errors.New("x") }), false},
		"it used the processor":          {of(func(v *agent.Living) { v.Sample.CPU-- }), false},
		"its program is another":         {of(func(v *agent.Living) { v.PID = 9 }), false},
		"its sandbox is another":         {of(func(v *agent.Living) { v.InitPID = 9 }), false},
		"its generation is another":      {of(func(v *agent.Living) { v.Generation = 1 }), false},
		"it is another one of that name": {of(func(v *agent.Living) { v.Created = time.Unix(2, 0) }), false},
	} {
		require.Equal(t, tc.stood, stood(of(func(*agent.Living) {}), tc.last), name)
	}
}

func TestARefIsReadOnlyIfItIsAFileOfTheRepository(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ref"), []byte("abc\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(strings.Repeat("x", 2*maxRef)), 0o600))
	require.NoError(t, os.Symlink("ref", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	for name, want := range map[string]string{"ref": "abc\n", "long": strings.Repeat("x", maxRef), "link": "abc\n", "out": "", "fifo": "", "dir": "", "none": "", "../x": ""} {
		require.Equal(t, want, string(readRef(root, name)), name)
	}
}
