package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// networkd runs systemd-networkd on the test's host with a configuration that matches every link, and with the files of
// the packages if packaged is set. It has a /run of its own, and a /sys by which it takes the host for a
// container without udev.
func (i *internet) networkd(packaged bool) (stop func()) {
	i.t.Helper()
	const program = "/lib/systemd/systemd-networkd"
	needProgram(i.t, program)
	files := i.t.TempDir()
	require.NoError(i.t, os.WriteFile(filepath.Join(files, "20-all.network"), []byte("[Match]\nName=pl* polis*\n[Network]\nAddress=192.0.2.9/24\n"), 0o644))
	if packaged {
		b, err := os.ReadFile("../units/10-polis.network")
		require.NoError(i.t, err)
		require.NoError(i.t, os.WriteFile(filepath.Join(files, "10-polis.network"), b, 0o644))
	}
	script := fmt.Sprintf(`mount --make-rprivate / && mount -t sysfs -o ro sysfs /sys &&
mount -t tmpfs -o mode=755 polis /run && mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
cp %[1]s/* /run/systemd/network/ && chown -R systemd-network /run/systemd/netif && container=lxc exec %[2]s`, files, program)
	cmd := exec.Command("nsenter", "--net="+i.host, "unshare", "--mount", "sh", "-c", script)
	log, err := os.Create(filepath.Join(files, "log"))
	require.NoError(i.t, err)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(i.t, cmd.Start())
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = log.Close()
		if i.t.Failed() {
			i.t.Log(readFile(filepath.Join(files, "log")))
		}
	}
}

// A network service of the host that takes all links for its own detaches those of agents. The packages have a file that
// keeps it away; without it polisd puts them back.
func TestNetworkServicesDoNotTakeTheLinksOfAgents(t *testing.T) {
	world := newInternet(t)
	d := world.startBehind("", "")
	d.up()
	d.add("alice")
	works := func() bool { return d.get("alice", "203.0.113.1").code == 0 }
	require.True(t, works())

	stop := world.networkd(true)
	time.Sleep(3 * time.Second)
	stop()
	require.True(t, works())
	require.Empty(t, d.eventsOf(api.EventNetwork), "it was kept away")

	stop = world.networkd(false)
	d.eventually("it takes the links", func() bool { return len(d.eventsOf(api.EventNetwork)) > 0 })
	d.eventually("alice reaches the internet", works)
	stop()
	d.eventually("alice reaches the internet", works)
	require.Contains(t, fmt.Sprint(d.eventsOf(api.EventNetwork)[0].Data["faults"]), "is not attached to the bridge")
	require.Equal(t, api.CheckOK, d.checkOf("network of agents").State)
}
