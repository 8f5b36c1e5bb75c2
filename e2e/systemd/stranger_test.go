package systemd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStrangersDay types what the documentation prints, in a booted systemd: docs/guide/quickstart.md from the package
// to the first merge and its revert, then two more agents, and the upgrade, downgrade, removal and purge of docs/release.md.
func TestStrangersDay(t *testing.T) {
	if os.Getenv("POLIS_GUEST") != "" {
		strangersDay(t)
		return
	}
	if os.Getenv("POLIS_BOOT") != "" {
		t.Skip("the image of the emulated machine is for TestUnderSystemd")
	}
	needSystemd(t)
	dir := guestDir(t)
	makeDebs(t, dir)
	host(t, "rm", "-rf", filepath.Join(dir, "stage"))
	for _, page := range []string{"guide/quickstart.md", "guide/upgrade.md", "release.md"} {
		host(t, "cp", "../../docs/"+page, dir)
	}
	bootGuest(t, dir, []string{"BOOT_TREE=" + os.Getenv("POLIS_TREE")})
}

var (
	rootCommand = regexp.MustCompile(`(?m)^    sudo (.*?)( +#.*)?$`)
	userBlock   = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// printed returns the commands of a page that need root.
func printed(t *testing.T, page string) []string {
	t.Helper()
	var out []string
	for _, m := range rootCommand.FindAllStringSubmatch(readFile(t, "/run/guest/"+page), -1) {
		out = append(out, m[1])
	}
	require.NotEmpty(t, out, page)
	return out
}

// asRoot runs a printed command, in the directory with the packages; apt asks nothing, as with a person who agrees.
func asRoot(t *testing.T, dir, command string) string {
	t.Helper()
	return must(t, "echo 'APT::Get::Assume-Yes \"true\";' > /run/apt.conf; export APT_CONFIG=/run/apt.conf DEBIAN_FRONTEND=noninteractive USER=ann; cd "+dir+" && "+command)
}

// asAnn runs a command as the user, in the repository, in a new session.
func asAnn(t *testing.T, command string) string {
	t.Helper()
	require.NoError(t, os.WriteFile("/run/ann.sh", []byte("cd ~/project\n"+command+"\n"), 0o644))
	return must(t, "runuser -l ann -c 'bash -e /run/ann.sh'")
}

func strangersDay(t *testing.T) {
	before := strangerBefore(t)
	quick, release := printed(t, "quickstart.md"), printed(t, "release.md")
	require.Len(t, release, 4, "upgrade, downgrade, remove, purge")
	require.Equal(t, release[:2], printed(t, "upgrade.md"), "the guide prints the same commands")
	for version, dir := range map[string]string{olderVersion: "/run/older", newerVersion: "/run/newer"} {
		must(t, "mkdir "+dir+" && cp "+debFile(version)+" "+dir+"/ && chmod -R a+rX "+dir)
	}

	for _, command := range quick {
		asRoot(t, "/run/older", command)
	}
	blocks := userBlock.FindAllStringSubmatch(readFile(t, "/run/guest/quickstart.md"), -1)
	require.Len(t, blocks, 3, "set up and run, look, revert")
	require.Contains(t, asAnn(t, blocks[0][1]), "polisctl", "init prints the next commands")
	eventually(t, "the merge of the task", func() bool { _, err := os.Stat("/home/ann/project/NOTES.md"); return err == nil })
	require.Contains(t, asAnn(t, blocks[1][1]), "claude")

	// Two more agents; one has uncommitted work, one a process that must not notice what follows.
	asAnn(t, `polisctl agents add docs --base custom
polisctl agents add tests --base custom
polisctl agents exec docs -- sh -c 'echo more >> README'
polisctl agents exec tests -- sh -c 'setsid sleep 77777 >/dev/null 2>&1 </dev/null &'`)
	eventually(t, "the process", func() bool { return sleeping(t) != 0 })
	process := sleeping(t)
	upgrade := strings.ReplaceAll(release[0], "1.1.0", newerVersion)
	for _, step := range []struct{ dir, command, version string }{{"/run/newer", upgrade, newerVersion}, {"/run/older", release[1], olderVersion}} {
		asRoot(t, step.dir, step.command)
		eventually(t, "polisd answers", func() bool { return answers(t) })
		require.Contains(t, must(t, "polisctl --json status"), `"`+step.version+`"`)
		require.Equal(t, process, sleeping(t), "%s touches no agent", step.command)
		require.Contains(t, asAnn(t, "polisctl agents exec docs -- cat README"), "more")
	}
	asAnn(t, blocks[2][1])
	mustNot(t, "test -e /home/ann/project/NOTES.md") // the revert is in the checkout
	asAnn(t, "polisctl agents commit docs -m 'More in README' && polisctl merge docs && grep more README")

	asRoot(t, "/", release[2])
	require.Zero(t, sleeping(t))
	require.Empty(t, traces(t))
	must(t, "test -e /etc/polis/polisd.toml")
	asRoot(t, "/", release[3])
	require.Empty(t, traces(t))
	asAnn(t, "git log --oneline | grep 'More in README'; git status --short; git fsck")
	// A purge keeps workspaces; what a person does who does not want them any more.
	must(t, "test -d /home/ann/project && userdel -rf ann; rm -rf /usr/local/bin/claude /var/lib/polis; ! id ann")
	require.Empty(t, newFiles(before, files(t)), "the machine is as before, but for the user polis")
	require.NotContains(t, must(t, "journalctl --no-pager -q -o cat"), "panic:")
}

// strangerBefore makes the user with a repository, and a program for claude, and returns the files of the machine
// before that.
func strangerBefore(t *testing.T) string {
	if _, err := run(t, "dpkg -s polis"); err == nil {
		t.Skip("polis is installed on this machine")
	}
	before := files(t)
	require.NoError(t, os.WriteFile("/usr/local/bin/claude", []byte(`#!/bin/sh
date > NOTES.md && git add NOTES.md && git -c user.name=c -c user.email=c@example.org commit -qm notes
`), 0o755))
	must(t, `useradd -m -s /bin/bash ann && mkdir ~ann/project && cd ~ann/project && git init -q -b main && echo project > README && git add . &&
git -c user.name=x -c user.email=x@y.invalid commit -qm start && chown -R ann: ~ann && rm -f /etc/*-`)
	return before
}

// newFiles are the lines of after that before does not have.
func newFiles(before, after string) []string {
	known := map[string]bool{}
	for f := range strings.SplitSeq(before, "\n") {
		known[f] = true
	}
	var out []string
	for f := range strings.SplitSeq(after, "\n") {
		if !known[f] {
			out = append(out, f)
		}
	}
	return out
}
