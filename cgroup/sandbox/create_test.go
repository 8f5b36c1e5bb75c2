//go:build seccomp

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/cgroup"
)

func TestBadConfigurationsAreRefusedAndLeaveNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tc := range map[string]struct {
		change func(*Config)
		want   error
	}{
		"root":                      {func(c *Config) { c.UID = 0 }, ErrConfig},
		"root's group":              {func(c *Config) { c.GID = 0 }, ErrConfig},
		"root's group as another":   {func(c *Config) { c.Groups = []int{0} }, ErrConfig},
		"negative user":             {func(c *Config) { c.UID = -1 }, ErrConfig},
		"no user name":              {func(c *Config) { c.User = "" }, ErrConfig},
		"user name with a line":     {func(c *Config) { c.User = "a\nroot:x:0:0" }, ErrConfig},
		"user name with a colon":    {func(c *Config) { c.User = "a:b" }, ErrConfig},
		"id with a slash":           {func(c *Config) { c.ID = "../x" }, ErrConfig},
		"no id":                     {func(c *Config) { c.ID = "" }, ErrConfig},
		"relative root":             {func(c *Config) { c.RootfsDir = "x" }, ErrConfig},
		"root of the host":          {func(c *Config) { c.RootfsDir = "/" }, ErrConfig},
		"home is a system tree":     {func(c *Config) { c.Home = "/usr" }, ErrConfig},
		"home in /proc":             {func(c *Config) { c.Home = "/proc/x" }, ErrConfig},
		"unclean home":              {func(c *Config) { c.Home = "/home/../usr" }, ErrConfig},
		"mount over /proc":          {func(c *Config) { c.Mounts = []Mount{{Source: "/tmp", Dest: "/proc"}} }, ErrConfig},
		"mount over a /proc file":   {func(c *Config) { c.Mounts = []Mount{{Source: "/tmp", Dest: "/proc/sys"}} }, ErrConfig},
		"mount over process 1":      {func(c *Config) { c.Mounts = []Mount{{Source: file, Dest: initPath}} }, ErrConfig},
		"mount over everything":     {func(c *Config) { c.Mounts = []Mount{{Source: "/tmp", Dest: "/"}} }, ErrConfig},
		"mount out of the tree":     {func(c *Config) { c.Mounts = []Mount{{Source: "/tmp", Dest: "/a/../../b"}} }, ErrConfig},
		"long host name":            {func(c *Config) { c.Hostname = strings.Repeat("x", 64) }, ErrConfig},
		"negative memory":           {func(c *Config) { c.Limits.MemoryBytes = -1 }, ErrConfig},
		"little memory":             {func(c *Config) { c.Limits.MemoryBytes = 1000 }, ErrConfig},
		"init binary is private":    {func(c *Config) { c.InitBinary = file }, ErrConfig},
		"init binary is missing":    {func(c *Config) { c.InitBinary = "/no/such/file" }, ErrConfig},
		"cgroup is the root":        {func(c *Config) { c.CgroupPath = "/" }, ErrCgroup},
		"cgroup is relative":        {func(c *Config) { c.CgroupPath = "x" }, ErrCgroup},
		"cgroup leaves":             {func(c *Config) { c.CgroupPath = "/x/../.." }, ErrCgroup},
		"cgroup below a file":       {func(c *Config) { c.CgroupPath = "/cgroup.procs/x" }, ErrCgroup},
		"missing network namespace": {func(c *Config) { c.NetNS = "/no/such/ns" }, ErrNamespace},
		"no network namespace":      {func(c *Config) { c.NetNS = file }, ErrNamespace},
		"missing mount source":      {func(c *Config) { c.Mounts = []Mount{{Source: "/no/such/dir", Dest: "/w"}} }, ErrNamespace},
		"missing home":              {func(c *Config) { c.HomeDir = "/no/such/dir" }, ErrNamespace},
		"init cannot be executed": {func(c *Config) {
			c.InitBinary = filepath.Join(c.HomeDir, "x")
			_ = os.WriteFile(c.InitBinary, []byte("text"), 0o755)
		}, ErrNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			group := cfg.CgroupPath
			tc.change(&cfg)
			_, err := Create(t.Context(), cfg)
			require.ErrorIs(t, err, tc.want)
			for _, other := range []error{ErrConfig, ErrCgroup, ErrNamespace} {
				require.Equal(t, other == tc.want, errors.Is(err, other), "%v", err)
			}
			if filepath.IsAbs(cfg.RootfsDir) && cfg.RootfsDir != "/" && goodID.MatchString(cfg.ID) {
				require.NoDirExists(t, cfg.RootfsDir)
				require.NoFileExists(t, filepath.Join(cfg.StateDir, cfg.ID))
			}
			host, err := cgroup.Detect()
			require.NoError(t, err)
			g, err := host.Group(group)
			require.NoError(t, err)
			require.NoError(t, g.RemoveIfEmpty()) // a parent of what could not be made
			require.False(t, g.Exists())
		})
	}
}

func TestCreateEndsWithItsContext(t *testing.T) {
	cfg := testConfig(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Create(gone, cfg)
	require.Error(t, err)
	requireGone(t, cfg)

	for _, d := range []time.Duration{5, 10, 20, 30, 40} {
		ctx, cancel := context.WithTimeout(t.Context(), d*time.Millisecond)
		s, err := Create(ctx, cfg)
		cancel()
		if err == nil { // fast machine
			require.NoError(t, s.Destroy(t.Context()))
		}
		requireGone(t, cfg)
	}
}

func TestMountsAppearWhereTheyAreAsked(t *testing.T) {
	src := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(src, "file"), []byte("content"), 0o644))
	require.NoError(t, os.Chmod(src, 0o777))
	dests := []string{
		"/home/agent/code/project", "/tmp/a/b", "/root/p", "/w", "/srv/x/y", "/opt/polis-test-project/p", "/var/tmp/deep/p", "/var/www", "/run/x/y", "/usr/polis-test/p",
	}
	cfg := testConfig(t)
	for _, d := range dests {
		cfg.Mounts = append(cfg.Mounts, Mount{Source: src, Dest: d})
	}
	cfg.Mounts = append(cfg.Mounts,
		Mount{Source: src, Dest: "/ro", ReadOnly: true},
		Mount{Source: filepath.Join(src, "file"), Dest: "/home/agent/.config/tool/settings", ReadOnly: true},
		Mount{Source: filepath.Join(src, "file"), Dest: "/home/agent/code/project/file"}, // on top of an earlier one
	)
	s := create(t, cfg)
	for i, d := range dests {
		require.Equal(t, "content", sh(t, s, "cat "+d+"/file"), d)
		sh(t, s, fmt.Sprintf("cd %s && echo x > new%d", d, i))
		require.FileExists(t, filepath.Join(src, fmt.Sprintf("new%d", i)))
	}
	require.Equal(t, "content", sh(t, s, "cat /ro/file"))
	out, code := run(t, s, "/bin/sh", "-c", "echo x > /ro/file2")
	require.NotZero(t, code)
	require.Contains(t, out, "Read-only file system")
	require.Equal(t, "content", sh(t, s, "cat ~/.config/tool/settings"))
	// The directories on the way belong to the user.
	require.Equal(t, "agent", sh(t, s, "stat -c %U ~/code ~/.config ~/.config/tool /var/tmp/deep | sort -u"))
	sh(t, s, "echo x > ~/code/beside && echo x > ~/.config/tool/other")
	// And what is mounted is not a way to the rest.
	require.NotContains(t, sh(t, s, "ls -a /opt/polis-test-project"), "beside")
}

func TestNeighboursOfAProjectAreNotSeen(t *testing.T) {
	needRoot(t)
	ws, err := os.MkdirTemp("/opt", "polis-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(ws)) })
	hidden, err := os.MkdirTemp("/opt", "polis-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(hidden)) })
	for _, d := range []string{"project", ".polis/worktrees/claude", ".polis/worktrees/gemini", ".polis/bare-repo.git"} {
		require.NoError(t, os.MkdirAll(filepath.Join(ws, d), 0o755))
	}
	require.NoError(t, os.Chmod(ws, 0o755))
	view := t.TempDir()
	cfg := testConfig(t)
	cfg.Mounts = []Mount{
		{Source: view, Dest: filepath.Join(ws, "project")},
		{Source: view, Dest: filepath.Join(ws, ".polis/worktrees/claude")},
	}
	cfg.Hide = []string{hidden}
	s := create(t, cfg)
	require.Equal(t, ".polis\nproject", sh(t, s, "ls -A "+ws))
	require.Equal(t, "worktrees", sh(t, s, "ls -A "+ws+"/.polis"))
	require.Equal(t, "claude", sh(t, s, "ls -A "+ws+"/.polis/worktrees"))
	_, code := run(t, s, "test", "-e", hidden)
	require.NotZero(t, code)
}

func TestProjectBelowUsrLocalKeepsTheTools(t *testing.T) {
	cfg := testConfig(t)
	// Neither exists on the host: only the sandbox has them.
	cfg.Mounts = []Mount{
		{Source: t.TempDir(), Dest: "/usr/local/polis-test/project"},
		{Source: t.TempDir(), Dest: "/etc/polis-test/project"},
	}
	s := create(t, cfg)
	require.Equal(t, "project", sh(t, s, "ls /usr/local/polis-test"))
	require.Equal(t, "project", sh(t, s, "ls /etc/polis-test"))
	host, err := os.ReadDir("/usr/local/bin")
	require.NoError(t, err)
	require.Len(t, strings.Fields(sh(t, s, "ls -A /usr/local/bin")), len(host))
	require.Equal(t, "agent", sh(t, s, "id -un"), "the generated list")
	require.NoDirExists(t, "/usr/local/polis-test")
	require.NoDirExists(t, "/etc/polis-test")
}

func TestWithoutDirectoriesOfTheHostEverythingIsInMemory(t *testing.T) {
	cfg := testConfig(t)
	cfg.HomeDir, cfg.ScratchDir, cfg.RunDir = "", "", ""
	s := create(t, cfg)
	require.Equal(t, "x x x", sh(t, s, "for d in $HOME $TMPDIR /var/tmp; do echo x > $d/f || exit 1; done; echo $(cat $HOME/f $TMPDIR/f /var/tmp/f)"))
	require.Equal(t, "700 agent", sh(t, s, "stat -c '%a %U' ~"))
	_, code := run(t, s, "test", "-e", "/run/polis")
	require.NotZero(t, code)
}

func TestNetworkNamespace(t *testing.T) {
	needRoot(t)
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	require.NoError(t, holder.Start())
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	cfg := testConfig(t)
	cfg.NetNS = fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	s := create(t, cfg)
	want, err := os.Readlink(cfg.NetNS)
	require.NoError(t, err)
	require.Equal(t, want, sh(t, s, "readlink /proc/self/ns/net"))

	s = create(t, testConfig(t))
	require.NotEqual(t, want, sh(t, s, "readlink /proc/self/ns/net"))
	require.Equal(t, "0x9", sh(t, s, "cat /sys/class/net/lo/flags"), "loopback is up")
	require.Equal(t, "lo", sh(t, s, "ls /sys/class/net | grep -v bonding"))
}

func TestResolvConf(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(conf, []byte("nameserver 10.99.0.1\n"), 0o644))
	cfg := testConfig(t)
	cfg.ResolvConf = conf
	s := create(t, cfg)
	require.Equal(t, "nameserver 10.99.0.1", sh(t, s, "cat /etc/resolv.conf"))
}

func TestLimitsCanBeChangedAndAreSeenInside(t *testing.T) {
	cfg := testConfig(t)
	s := create(t, cfg)
	require.NoError(t, s.SetLimits(cgroup.Limits{MemoryBytes: 128 << 20, Pids: 50, CPUWeight: 50}))
	st, err := s.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 128<<20, st.MemoryLimit)
	require.EqualValues(t, 50, st.PidsLimit)
	require.Equal(t, fmt.Sprint(128<<20), sh(t, s,
		"cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"))
}

func TestRootDirectoryHoldsNothingOfValue(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for name, prepare := range map[string]func(root string) error{
		"a file with content": func(root string) error {
			return os.WriteFile(filepath.Join(root, "x"), []byte("value"), 0o644)
		},
		"a mount": func(root string) error {
			t.Cleanup(func() { _ = unix.Unmount(filepath.Join(root, "m"), unix.MNT_DETACH) })
			return errors.Join(os.Mkdir(filepath.Join(root, "m"), 0o755),
				unix.Mount("/usr", filepath.Join(root, "m"), "", unix.MS_BIND, ""))
		},
	} {
		root := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		require.NoError(t, os.Mkdir(root, 0o755))
		require.NoError(t, prepare(root))
		require.Error(t, removeRootfs(root), name)
		require.DirExists(t, root)
	}
	require.Error(t, removeRootfs("/"))
	require.Error(t, removeRootfs("relative"))
	require.NoError(t, removeRootfs(filepath.Join(dir, "missing")))
}
