package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The versions of the packages that the test installs, in the order of Debian.
const olderVersion, newerVersion = "1.0.0", "1.1.0~rc1"

// TestPackages makes Debian packages of two versions and lives a life with them in a booted systemd:
// install, work, upgrade, downgrade, remove, purge. BOOT_TREE selects the system that is booted.
func TestPackages(t *testing.T) {
	if os.Getenv("POLIS_GUEST") != "" {
		lifeOfAPackage(t)
		return
	}
	if os.Getenv("POLIS_BOOT") != "" {
		t.Skip("the image of the emulated machine is for TestUnderSystemd")
	}
	needSystemd(t)
	dir := guestDir(t)
	tree, debs := makeDebs(t, dir)
	// The same tree makes the same bytes, at another time and in another directory.
	again := filepath.Join(dir, "again")
	require.NoError(t, os.Rename(tree, again))
	pack(t, again, newerVersion, again)
	b, err := os.ReadFile(filepath.Join(again, "polis_"+newerVersion+"_amd64.deb"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(debs[newerVersion], b), "two packages of one tree differ")
	require.NoError(t, os.RemoveAll(again))
	bootGuest(t, dir, []string{"BOOT_TREE=" + os.Getenv("POLIS_TREE")})
}

// makeDebs makes the packages of both versions in dir, with the test itself, and returns the tree that they are
// made from, and their bytes.
func makeDebs(t *testing.T, dir string) (tree string, debs map[string][]byte) {
	t.Helper()
	tree, debs = filepath.Join(dir, "stage"), map[string][]byte{}
	self, err := os.Executable()
	require.NoError(t, err)
	host(t, "cp", self, filepath.Join(dir, "guest.test"))
	host(t, "make", "-s", "-C", "../..", "install", "DESTDIR="+tree, "BIN="+absolute(t, programs()))
	for _, version := range []string{olderVersion, newerVersion} {
		host(t, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", filepath.Join(tree, "usr/sbin/polisd"), "../../cmd/polisd")
		pack(t, dir, version, tree)
		b, err := os.ReadFile(filepath.Join(dir, "polis_"+version+"_amd64.deb"))
		require.NoError(t, err)
		debs[version] = b
	}
	return tree, debs
}

func pack(t *testing.T, dir, version, tree string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../scripts/package", "--fast", "deb", "amd64", tree)
	cmd.Env = append(os.Environ(), "DIST="+dir, "VERSION="+version, "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func host(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

func lifeOfAPackage(t *testing.T) {
	for _, part := range []struct {
		name string
		f    func(*testing.T)
	}{
		{"install", installPackage},
		{"start", startPackage},
		{"three agents work", workPackage},
		{"an upgrade touches no agent", upgradePackage},
		{"a downgrade touches no agent", downgradePackage},
		{"removal stops the agents and keeps what is not the package's", removePackage},
		{"install again", installAgain},
		{"purge keeps worktrees, branches and trash", purgePackage},
	} {
		if !t.Run(part.name, part.f) {
			t.FailNow()
		}
	}
}

func debFile(version string) string { return "/run/guest/polis_" + version + "_amd64.deb" }

// files lists what a package could leave: names below the directories that it writes to.
func files(t *testing.T) string {
	return must(t, `find /etc /usr /opt /var/lib -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /var/lib/PackageKit -o -path /usr/share/man -o -name '*.cache' -o -name '*-' \) -prune -o -printf '%p\n' | sort`)
}

var filesBefore string

func installPackage(t *testing.T) {
	if _, err := run(t, "dpkg -s polis"); err == nil {
		t.Skip("polis is installed on this machine")
	}
	filesBefore = files(t)
	must(t, "dpkg -i "+debFile(olderVersion))
	require.Contains(t, must(t, "polisd --version"), olderVersion)
	must(t, "polisd --check && polisctl version --client >/dev/null 2>&1 || polisctl version >/dev/null 2>&1 || true")
	must(t, "systemd-analyze verify --man=no polisd.service polisd.socket polis.slice polis-agent@x.service")
	must(t, "id polis && test -d /etc/polis/agents.d && test -e /usr/share/man/man8/polisd.8.gz && dpkg -V polis")
	for _, u := range []string{"polisd.service", "polisd.socket"} {
		require.Equal(t, "inactive", property(t, u, "ActiveState"), "installing starts nothing")
		require.Equal(t, "disabled", property(t, u, "UnitFileState"))
	}
	for _, f := range []string{"copyright", "polis.cdx.json.gz", "changelog.gz", "changelog.Debian.gz", "SECURITY.md"} {
		must(t, "test -s /usr/share/doc/polis/"+f)
	}
}

func startPackage(t *testing.T) {
	must(t, "systemctl enable --now polisd.socket")
	must(t, "polisctl --timeout 60s -q status")
	require.Equal(t, "active", property(t, "polisd.service", "ActiveState"), "the socket starts polisd")
}

// workPackage makes a project of an unprivileged user with three agents, one of which is busy.
func workPackage(t *testing.T) {
	must(t, `useradd -m -s /bin/bash ann
mkdir -p /tmp/project && cd /tmp/project && git init -q -b main && echo one > a.txt && echo two > b.txt && git add . &&
git -c user.name=x -c user.email=x@y commit -qm start && chown -R ann:ann /tmp/project
polisctl up --repo /tmp/project /tmp/ws
for a in alice bob carol; do polisctl agents add $a --workspace ws --base custom; done
polisctl agents exec alice -- sh -c 'echo alice >> a.txt && git -c user.name=a -c user.email=a@b commit -qam work'
polisctl agents exec bob -- sh -c 'echo bob >> b.txt'
polisctl merge alice
echo 'max_agents = 7' | cat - /etc/polis/polisd.toml > /tmp/polisd.toml && cp /tmp/polisd.toml /etc/polis/polisd.toml && systemctl reload polisd`)
	must(t, "polisctl agents exec carol -- sh -c 'echo carol > c.txt'")
	must(t, "polisctl agents exec carol -- sh -c 'setsid sleep 77777 >/dev/null 2>&1 </dev/null &'")
	eventually(t, "carol's process", func() bool { return sleeping(t) != 0 })
}

// sameAgents requires that f replaces polisd by the given version and touches no agent.
func sameAgents(t *testing.T, version string, f func()) {
	t.Helper()
	process, daemon := sleeping(t), pid(t, "polisd")
	require.NotZero(t, process)
	shims := map[string]int{}
	for _, a := range []string{"alice", "bob", "carol"} {
		shims[a] = pid(t, "polis-agent@"+a)
		require.NotZero(t, shims[a])
	}
	f()
	eventually(t, "polisd answers", func() bool { return answers(t) })
	require.Contains(t, must(t, "polisctl --json status"), `"`+version+`"`)
	require.NotEqual(t, daemon, pid(t, "polisd"))
	require.Equal(t, process, sleeping(t), "carol's process")
	for a, shim := range shims {
		require.Equal(t, shim, pid(t, "polis-agent@"+a), a)
	}
	require.Contains(t, must(t, "polisctl agents exec bob -- sh -c 'echo more >> b.txt; cat b.txt'"), "bob\n")
	require.Contains(t, readFile(t, "/etc/polis/polisd.toml"), "max_agents = 7", "the administrator's configuration stays")
}

func upgradePackage(t *testing.T) {
	sameAgents(t, newerVersion, func() { must(t, "dpkg -i --force-confold "+debFile(newerVersion)) })
}

func downgradePackage(t *testing.T) {
	sameAgents(t, olderVersion, func() { must(t, "dpkg -i --force-confold "+debFile(olderVersion)) })
}

func removePackage(t *testing.T) {
	must(t, "polisctl agents remove alice && polisctl agents remove carol --force") // the branch of one stays, the work of the other is in the trash
	must(t, "dpkg -r polis")
	require.Zero(t, sleeping(t))
	require.Empty(t, traces(t))
	mustNot(t, "command -v polisd")
	require.Contains(t, readFile(t, "/etc/polis/polisd.toml"), "max_agents = 7", "removal keeps the configuration")
	require.Contains(t, readFile(t, "/tmp/ws/.polis/worktrees/bob/b.txt"), "bob\nmore\n")
}

func installAgain(t *testing.T) {
	must(t, "dpkg -i --force-confold "+debFile(newerVersion)+" && systemctl enable --now polisd.socket")
	eventually(t, "polisd answers", func() bool { return answers(t) })
	must(t, "polisctl agents start bob; polisctl agents exec bob -- cat b.txt")
	must(t, "polisctl agents exec bob -- sh -c 'git -c user.name=a -c user.email=a@b commit -qam bob'")
}

func purgePackage(t *testing.T) {
	must(t, "dpkg -P polis")
	require.Empty(t, traces(t))
	left, _ := run(t, "find /etc/polis /var/lib/polis /run/polis 2>/dev/null")
	require.Empty(t, left)
	// The work stays: a worktree, the branches, and what agents remove saved.
	require.Contains(t, readFile(t, "/tmp/ws/.polis/worktrees/bob/b.txt"), "bob\nmore\n")
	require.Contains(t, must(t, "git -c safe.directory='*' -C /tmp/ws/.polis/bare-repo.git branch --list"), "agent/bob")
	must(t, "git -c safe.directory='*' -C /tmp/ws/.polis/internal.git for-each-ref | grep -q .")
	must(t, "git -c safe.directory='*' -C /tmp/project log --oneline | grep -q .")
	// A new installation finds all of it.
	must(t, "dpkg -i "+debFile(newerVersion)+" && systemctl enable --now polisd.socket")
	must(t, "polisctl --timeout 60s up --repo /tmp/project /tmp/ws")
	require.Contains(t, must(t, "polisctl agents list --json"), `"bob"`)
	must(t, "polisctl agents start bob && polisctl agents exec bob -- cat b.txt && polisctl restore carol && polisctl agents exec carol -- cat c.txt && dpkg -P polis && userdel -r ann 2>/dev/null; rm -rf /tmp/ws /tmp/project")
	stays := newFiles(filesBefore, files(t))
	require.Empty(t, stays, "the machine is as before, but for the user polis")
	must(t, "id polis")
	text := must(t, "journalctl --no-pager -q -o cat")
	require.NotContains(t, text, "panic:")
}
