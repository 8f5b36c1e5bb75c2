package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/internal/need"
)

// TestMain lets the test binary be doctor's child, as polis-shim is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--"+ChildFlag {
		if err := Child(context.Background(), os.Stdout, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

func configFile(t *testing.T, text string) string {
	f := filepath.Join(t.TempDir(), "polisd.toml")
	require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
	return f
}

func byName(r api.DoctorReport) map[string]api.Check {
	out := map[string]api.Check{}
	for _, c := range r.Checks {
		out[c.Name] = c
	}
	return out
}

// A machine on which the other tests pass has what agents need; doctor reports so and leaves
// nothing behind.
func TestThisMachineIsGoodEnough(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	rep := (&Doctor{ConfigFile: configFile(t, fmt.Sprintf("workspaces_dir = %q\n", dir))}).Run(t.Context())
	for _, c := range rep.Checks {
		require.NotEqual(t, api.CheckFail, c.State, "%+v", c)
		require.NotEmpty(t, c.Found, c.Name)
		require.Equal(t, c.State == api.CheckOK, c.Cost == "", "what is wrong has a cost, and only that: %+v", c)
		requireRemedy(t, c)
	}
	got := byName(rep)
	for _, name := range []string{"configuration", "privileges", "kernel", "FUSE", "FUSE passthrough", "FUSE by io_uring", "namespaces", "network", "egress log", "system call audit", "connection limit", "bridge filter", "network of agents", "routes", "room for agents", "forwarding", "ports", "control groups", "git", "confined git", "systemd", "disk", "clock", "open files", "inotify"} {
		require.Contains(t, got, name)
	}
	for name, old := range map[string]string{"egress log": "told refusals", "system call audit": "told system calls", "connection limit": "counted connections"} {
		require.Equal(t, old, got[name].FormerName)
	}
	after, err := os.ReadFile("/proc/thread-self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(after), "polis-doctor")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestPortsThatCannotBeHadAreNamed(t *testing.T) {
	check := func(text string) api.Check {
		d := &Doctor{ConfigFile: configFile(t, text)}
		require.Equal(t, api.CheckOK, d.readConfig().State)
		return d.ports(t.Context())
	}
	c := check("[network]\nbind = \"192.0.2.1\"\n")
	require.Equal(t, api.CheckFail, c.State)
	require.Contains(t, c.Found, "not an address of this host")
	require.Contains(t, c.Command, "sudo polisctl config set network.bind 127.0.0.1")
	c = check("[network]\nports = \"20000-20010\"\n")
	require.Equal(t, api.CheckWarn, c.State)
	require.Contains(t, c.Command, "sudo polisctl config set network.ports 3001-9999")
	require.Contains(t, c.Cost, "NO_PORTS")
	first, last, err := ephemeral()
	require.NoError(t, err)
	c = check(fmt.Sprintf("[network]\nports = \"%d-%d\"\n", first+100, min(last, first+400)))
	require.Equal(t, api.CheckWarn, c.State)
	require.Contains(t, c.Fix, fmt.Sprint(first))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c = check(fmt.Sprintf("[network]\nports = \"%d-%d\"\n", port, port))
	require.Contains(t, c.Found, "0 of 1 ports")
	lo, hi := (&config.Config{Network: config.Network{Ports: otherPorts(3001, 9999, first)}}).PortRange()
	require.True(t, lo > 1023 && hi < first && hi-lo > fewPorts, "%d-%d", lo, hi)
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	d := &Doctor{ConfigFile: configFile(t, "no_such_key = 1\n")}
	c := d.readConfig()
	require.Equal(t, api.CheckFail, c.State)
	require.Contains(t, c.Found, "no_such_key")
	require.NotEmpty(t, c.Fix)
	requireRemedy(t, c)
}

// requireRemedy: each check that is not ok says what to do, and has one command or the reason why there is none.
func requireRemedy(t *testing.T, c api.Check) {
	t.Helper()
	if c.State == api.CheckOK {
		require.Empty(t, c.Fix+c.Command+c.NoCommand, "%+v", c)
		return
	}
	require.NotEmpty(t, c.Fix, "%+v", c)
	require.NotEqual(t, c.Command == "", c.NoCommand == "", "%+v", c)
}

// Without capabilities the same program reports what is not available, and why that matters.
func TestWithoutCapabilitiesDoctorReportsWhatIsMissing(t *testing.T) {
	needRoot(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestReportWithoutCapabilities$", "-test.v")
	cmd.Env = append(os.Environ(), "POLIS_DOCTOR_NOBODY=1", "CI=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, want := range []string{"privileges failure", "FUSE failure", "namespace mount failure MOUNT_NS_FAILED", "namespace pid failure PID_NS_FAILED",
		"namespace network failure NET_NS_FAILED", "full isolation failure SYSBOX_UNAVAILABLE"} {
		require.Contains(t, string(out), want)
	}
}

// TestReportWithoutCapabilities is the other half of the test above.
func TestReportWithoutCapabilities(t *testing.T) {
	if os.Getenv("POLIS_DOCTOR_NOBODY") == "" {
		return // run by the test above
	}
	for _, c := range (&Doctor{ConfigFile: "/etc/polis/polisd.toml"}).Run(t.Context()).Checks {
		t.Log(c.Name, c.State, c.Code)
		requireRemedy(t, c)
		if c.State == api.CheckFail {
			require.NotEmpty(t, c.Cost)
		}
	}
}

func TestReleasesAreCompared(t *testing.T) {
	for text, want := range map[string]release{"6.1.0-18-amd64": {6, 1}, "6.18.44-fc": {6, 18}, "5.14.0": {5, 14}} {
		r, err := parseRelease(text)
		require.NoError(t, err)
		require.Equal(t, want, r)
	}
	for _, text := range []string{"", "six", "6", strings.Repeat("x", 100)} {
		_, err := parseRelease(text)
		require.Error(t, err, text)
	}
	require.True(t, release{6, 1}.before(passthrough))
	require.False(t, release{6, 9}.before(passthrough))
	require.False(t, release{7, 0}.before(passthrough))
	require.True(t, release{5, 13}.before(oldest))
}

func FuzzParseRelease(f *testing.F) {
	f.Add("6.1.0-18-amd64")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := parseRelease(s); err == nil {
			require.False(t, r.before(r))
		}
	})
}

func TestExistingIsTheNearestDirectory(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, dir, existing(filepath.Join(dir, "a", "b")))
	require.Equal(t, dir, existing(dir))
	require.Equal(t, "/", existing("/no-such-directory/x"))
}
