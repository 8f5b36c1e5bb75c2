package peer

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

func TestMain(m *testing.M) {
	if sock := os.Getenv("PEER_TEST_CONNECT"); sock != "" {
		c, err := net.Dial("unix", sock)
		if err != nil {
			os.Exit(1)
		}
		_, _ = c.Read(make([]byte, 1)) //nolint:errcheck // until the test has looked
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestThePeerIsWhoConnected, with all groups it had then.
func TestThePeerIsWhoConnected(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("/tmp", "polis-peer-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, os.Chmod(sock, 0o666))
	many := make([]uint32, 301)
	for i := range many {
		many[i] = uint32(70000 + i)
	}
	many[300] = 4242
	for name, c := range map[string]struct {
		cred      syscall.Credential
		admin, in bool
	}{
		"root":                    {syscall.Credential{}, true, false},
		"a stranger":              {syscall.Credential{Uid: 65534, Gid: 65534}, false, false},
		"by its group":            {syscall.Credential{Uid: 65534, Gid: 4242}, false, true},
		"by a supplementary one":  {syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{1, 4242}}, false, true},
		"by one of many":          {syscall.Credential{Uid: 65534, Gid: 65534, Groups: many}, false, true},
		"root's group is no door": {syscall.Credential{Uid: 65534, Gid: 0, Groups: []uint32{0}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			exe, err := os.ReadFile("/proc/self/exe")
			require.NoError(t, err)
			program := filepath.Join(dir, "connect")
			if _, err := os.Stat(program); err != nil { // the test's own may lie where only root comes
				require.NoError(t, os.WriteFile(program, exe, 0o755))
			}
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(os.Environ(), "PEER_TEST_CONNECT="+sock)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &c.cred}
			require.NoError(t, cmd.Start())
			conn, err := l.Accept()
			require.NoError(t, err)
			p, err := Of(conn)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			require.NoError(t, cmd.Wait())
			require.Equal(t, c.cred.Uid, p.UID)
			require.EqualValues(t, cmd.Process.Pid, p.PID)
			require.Equal(t, c.admin, p.Admin())
			require.Equal(t, c.in, p.In(4242))
			require.False(t, p.In(0))
			require.False(t, p.In(-1))
		})
	}
}
