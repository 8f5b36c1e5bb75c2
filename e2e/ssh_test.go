package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// sshOwner is who has the keys: a user with an account, which ssh asks for the
// home directory.
const sshOwner = 4321

// sshServer runs an sshd on a port of the loopback, with a host key of its own,
// for the key in home. It returns the port and the line for known_hosts.
func (d *daemon) sshServer() (port int, known string) {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.t, err)
	port = l.Addr().(*net.TCPAddr).Port
	require.NoError(d.t, l.Close())
	keygen(d.t, d.path("hostkey"), "")
	d.write("sshd_config", fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nAllowUsers polis-test\nAuthorizedKeysFile %s\n",
		port, d.path("hostkey"), d.path("authorized_keys")))
	// It wants a directory in /run, and not that of the machine.
	cmd := withPasswd(d.passwd, "sh", "-ec", `mount -t tmpfs none /run; mkdir -m 755 /run/sshd; exec /usr/sbin/sshd -D -e -f "$0"`, d.path("sshd_config"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		if d.t.Failed() {
			d.t.Logf("sshd: %s", log.String())
		}
	})
	d.eventually("sshd listens", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return port, fmt.Sprintf("[127.0.0.1]:%d %s", port, readFile(d.path("hostkey.pub")))
}

func keygen(t testing.TB, file, passphrase string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestRemotesBySSH: with the keys of the project's owner, as that user, and without a prompt.
func TestRemotesBySSH(t *testing.T) {
	needRoot(t)
	needProgram(t, "sshd")
	needProgram(t, "ssh")
	d := startDaemon(t, options{user: sshOwner, config: "[git]\nremote = \"push\"\nbranches = [\"shared/*\"]\n"})
	mine := func(path string) {
		require.NoError(t, filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Lchown(p, sshOwner, sshOwner)
		}))
	}
	ssh := d.path("home", ".ssh")
	require.NoError(t, os.MkdirAll(ssh, 0o700))
	key := filepath.Join(ssh, "id_ed25519")
	keygen(t, key, "")
	port, known := d.sshServer()
	require.NoError(t, os.WriteFile(d.path("authorized_keys"), []byte(readFile(key+".pub")), 0o644))
	knownHosts := filepath.Join(ssh, "known_hosts")
	trust := func(text string) {
		require.NoError(t, os.WriteFile(knownHosts, []byte(text), 0o600))
		mine(d.path("home"))
	}
	trust(known)

	src := d.smallRepo()
	require.NoError(t, chownAll(src, 0))
	bare := d.path("remote.git")
	git(t, d.dir, "clone", "-q", "--bare", src, bare)
	git(t, bare, "branch", "elsewhere")
	git(t, src, "remote", "add", "origin", fmt.Sprintf("ssh://polis-test@127.0.0.1:%d%s", port, bare))
	mine(bare)
	mine(src)
	d.must("up", "--repo", src, d.path("ws"))
	d.add("alice")
	require.Equal(t, fmt.Sprint(sshOwner), strings.TrimSpace(d.sh("alice", "id -u")))

	require.Equal(t, git(t, bare, "rev-parse", "elsewhere"), d.sh("alice", "git fetch -q origin; git rev-parse origin/elsewhere"))
	out := d.sh("alice", ident+"echo a > a.txt; git add -A; git commit -qm a; git push -q -u origin HEAD 2>&1; git push -q origin HEAD:shared/x; git rev-parse HEAD")
	require.Equal(t, git(t, bare, "rev-parse", "agent/alice"), out, "a push says nothing when nothing is wrong")
	require.Equal(t, git(t, bare, "rev-parse", "shared/x"), out)
	seen := d.sh("alice", "env; cat /run/polis/gitconfig; ls -a ~ ~/.ssh 2>&1 || true; git fetch -v origin 2>&1")
	require.NotContains(t, seen, "id_ed25519", "no key comes into the sandbox")

	// A prompt is refused, with an error.
	refused := func(what, want, hint string) {
		t.Helper()
		r := d.exec("alice", "git", "fetch", "origin")
		require.NotZero(t, r.code, what)
		require.Contains(t, r.stderr, want, what)
		require.Contains(t, r.stderr, hint, what)
		require.NotContains(t, r.stderr, "password", what)
	}
	trust("")
	refused("a host that is not known", "the host is not known", "known_hosts")
	require.Empty(t, readFile(knownHosts), "it is not taken for granted")
	keygen(t, d.path("otherkey"), "")
	trust(fmt.Sprintf("[127.0.0.1]:%d %s", port, readFile(d.path("otherkey.pub"))))
	refused("a host with another key", "is not the one", "known_hosts")
	trust(known)
	out2, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-P", "", "-N", "s3cret phrase", "-f", key).CombinedOutput()
	require.NoError(t, err, "%s", out2)
	mine(d.path("home"))
	refused("a key with a passphrase", "without a passphrase", "~/.ssh/config")
	require.NoError(t, os.Remove(key))
	refused("no key", "no key", "~/.ssh/config")
	require.NotContains(t, d.log(), "s3cret phrase")
}
