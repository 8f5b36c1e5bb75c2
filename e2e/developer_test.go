package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/e2e/world"
)

// developer is a polisd on a normal developer's machine, and the user there.
type developer struct {
	*daemon
	w   *world.World
	net *internet
}

// newWorld makes a developer's machine.
func newWorld(t *testing.T) *world.World {
	t.Helper()
	needRoot(t)
	needProgram(t, "ssh-keygen")
	needProgram(t, "setpriv")
	dir, err := os.MkdirTemp("/tmp", "polis-world-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	w, err := world.Make(t.Context(), dir, os.Getenv("POLIS_E2E_GIT_LFS"))
	require.NoError(t, err)
	return w
}

// newDeveloper starts polisd on a developer's machine, behind the firewall of one.
func newDeveloper(t *testing.T, config string) *developer {
	t.Helper()
	needProgram(t, "nft")
	w, net := newWorld(t), newInternet(t)
	net.rules(world.UfwRules)
	net.rules(world.DockerRules)
	w.Netns = net.host
	resolv := filepath.Join(w.Dir, "resolv.conf")
	require.NoError(t, os.WriteFile(resolv, []byte("nameserver "+dnsAddr+"\n"), 0o644))
	d := startDaemon(t, options{
		netns: net.host, wrap: w.Inside(),
		mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", w.Tools, w.Tools),
		box:    fmt.Sprintf("path = [%q]", w.Tools),
		config: fmt.Sprintf("[network]\npool = \"10.236.0.0/16\"\nresolv_conf = %q\n%s", resolv, config),
	})
	// The build directory may be closed to others.
	require.NoError(t, w.Tool("polisctl", "#!/bin/sh\nPOLIS_SOCKET="+d.path("run", "polisd.sock")+" exec "+w.Dir+"/polisctl \"$@\"\n"))
	require.NoError(t, os.WriteFile(filepath.Join(w.Dir, "polisctl"), []byte(readFile(filepath.Join(d.bin, "polisctl"))), 0o755))
	return &developer{d, w, net}
}

// try runs a script as the user, in the project.
func (d *developer) try(script string) result {
	d.t.Helper()
	return capture(d.w.Command(d.t.Context(), d.w.Project, "bash", "-ec", script), "")
}

// user is try, and requires success. The output and the errors come back.
func (d *developer) user(script string) string {
	d.t.Helper()
	r := d.try(script)
	require.Zero(d.t, r.code, "%s\n%s", script, r)
	return r.stdout + r.stderr
}

// TestGuideOnADevelopersMachine runs every command of the guide as an ordinary user of a normal machine.
func TestGuideOnADevelopersMachine(t *testing.T) {
	guide(t, func(t *testing.T, page string, scripts []string) {
		if strings.Contains(strings.Join(scripts, ""), "sudo ") {
			return // the page is for the administrator: TestGuide runs it
		}
		d := newDeveloper(t, "")
		require.NoError(t, d.w.Tool("claude", claudeOfTheGuide))
		if page != "quickstart.md" {
			d.user("polisctl up")
		}
		for _, s := range scripts {
			t.Logf("%s\n%s", s, d.user(s))
		}
	})
}

// add adds an agent as the user, and returns what is printed.
func (d *developer) addAs(name string, flags ...string) string {
	d.t.Helper()
	return d.user("polisctl agents add " + name + " --base custom " + strings.Join(flags, " ") + " -- sh -ec")
}

// identOf prints who a commit is by.
const identOf = "git log -1 --format='%an <%ae>, %cn <%ce>' "

// TestADevelopersGitReachesAgents: identity, excludes, refs, submodule and shown files, all at once.
func TestADevelopersGitReachesAgents(t *testing.T) {
	d := newDeveloper(t, "")
	d.user("polisctl up")
	d.addAs("alice")
	const by = world.Identity + ", " + world.Identity + "\n"
	require.Equal(t, by, d.user("git commit -q --allow-empty -m own; "+identOf), "the identity that git has here")
	require.Equal(t, by, d.sh("alice", "echo x > new.txt; git add new.txt; git commit -qm new; "+identOf))

	require.Empty(t, d.sh("alice", "mkdir .idea; touch .idea/x a.swp notes.local; git status --porcelain"))
	require.Equal(t, "TOKEN=of-the-owner\n", d.sh("alice", "cat .env"))
	require.NotContains(t, d.must("locks"), "notes.local")
	require.NotContains(t, d.sh("alice", "git config -l; cat ~/.gitconfig; ls -aR ~"), "home.example", "nothing else of the configuration")

	require.Equal(t, "body {}\n", d.sh("alice", "cat vendor/theme/theme.css; git submodule status --recursive | grep -q '^ '"))
	require.Equal(t, "search\nnotes\n", d.sh("alice", "git show origin/feature/search:src/search.txt v1.1:docs/notes.md"))
	require.Equal(t, "origin/main origin/main\n", d.sh("alice", "echo $(git rev-parse --abbrev-ref '@{u}') $(git rev-parse --abbrev-ref origin/HEAD)"))
	d.addAs("bob", "--branch feature/search")
	require.Equal(t, "search\n", d.sh("bob", "cat src/search.txt"))
	d.user("git push -q origin main:later; git fetch -q; git tag -m two v2.0")
	d.must("agents", "run", "alice", "git rev-parse v2.0 origin/later")
	require.Equal(t, api.OutcomeMerged, d.settled("alice").Outcome, "of its commit")

	d.sh("alice", "cd vendor/theme; echo 'a {}' >> theme.css; git commit -qam color")
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "alice").Message, `"vendor/theme": 1 commit`)
}

// TestADevelopersCheckoutAfterMerges: it is clean, private and has the contents.
func TestADevelopersCheckoutAfterMerges(t *testing.T) {
	d := newDeveloper(t, "")
	d.user("polisctl up")
	d.addAs("alice")
	clean := func() {
		t.Helper()
		require.Empty(t, d.user("git status --porcelain"))
		require.Empty(t, d.user("find . -path ./.git -prune -o -path ./vendor/theme/.git -prune -o ! -type l -perm /077 -print"), "umask 077")
		require.Empty(t, d.user(`find . ! -user `+world.User))
	}
	clean()
	d.sh("alice", "mkdir -p pkg/new; echo new > pkg/new/file.txt; echo four >> main.txt; printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh; git mv src/a.txt src/b.txt; git rm -q docs/guide.md; git add -A; git commit -qm work")
	require.Contains(t, d.user("polisctl merge alice"), "project: updated")
	clean()
	require.Equal(t, "new\none\ntwo\nthree\nfour\na\n", d.user("cat pkg/new/file.txt main.txt src/b.txt; test ! -e docs/guide.md; ./run.sh"))
	require.Equal(t, world.Identity+", "+world.Identity+"\n", d.user(identOf+"main"))

	// A signature of the user's key.
	d.sh("alice", "echo five >> main.txt; git commit -qam five")
	require.Contains(t, d.user("polisctl merge alice --sign"), "project: updated")
	require.Contains(t, d.user("git verify-commit main"), `Good "git" signature for ann@corp.example`)
	require.Equal(t, world.Identity+", "+world.Identity+"\n", d.user(identOf+"main"))
	clean()

	// A file of Git LFS: polis runs no filter on the host, and prints the command that does.
	d.sh("alice", "git config filter.lfs.clean 'git-lfs clean -- %f'; git config filter.lfs.smudge 'git-lfs smudge -- %f'; git config filter.lfs.required true; echo better > assets/model.bin; git add assets; git commit -qm weights; git show HEAD:assets/model.bin | grep -q ^oid")
	command := regexp.MustCompile(`git -C \S+ merge --ff-only \S+`).FindString(d.user("polisctl merge alice"))
	require.FileExists(t, filepath.Join(d.w.Real, ".git/lfs/objects", object("better\n")))
	require.Equal(t, world.LFSContent, d.user("cat assets/model.bin"))
	d.user("cd /; " + command)
	require.Equal(t, "better\n", d.user("cat assets/model.bin"))
	clean()
}

// TestADevelopersMachineIsNamed: what of the machine does not work in agents is named where the user looks first, and works
// after what the text says.
func TestADevelopersMachineIsNamed(t *testing.T) {
	d := newDeveloper(t, "")
	up := d.user("polisctl up")
	const hooks = "git hooks in .githooks ("
	require.Contains(t, up, hooks)
	require.Contains(t, up, "your commits are signed (commit.gpgSign)")
	require.NotContains(t, up, "submodule", "agents have it")
	added := d.addAs("alice")
	require.Contains(t, added, hooks)
	require.Contains(t, added, "by Docker, in the hook forward: table ip filter, chain FORWARD (its policy)")
	require.Contains(t, added, "iptables -I DOCKER-USER -i "+bridgeOf(d.net)+" -j ACCEPT")
	mount := fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", d.w.Uv, d.w.Uv)
	require.Contains(t, added, "extra_mounts = ["+mount+"]")
	require.NotContains(t, added, "submodule")
	doctor := d.try("polisctl doctor")
	require.Contains(t, doctor.stdout, "by Docker")
	require.Contains(t, doctor.stdout, mount)

	// The commands of the texts, with nft in place of iptables.
	d.net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "iifname", bridgeOf(d.net), "accept")
	d.net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "oifname", bridgeOf(d.net), "ct", "state", "established,related", "accept")
	d.net.name("shop.example.org", "203.0.113.1")
	d.eventually("alice reaches the internet by name", func() bool { return d.get("alice", "shop.example.org").code == 0 })
	require.Equal(t, api.CheckOK, d.checkOf("forwarding").State)
	d.stop()
	config := strings.Replace(readFile(d.path("polisd.toml")), "extra_mounts = [", "extra_mounts = ["+mount+", ", 1)
	d.write("polisd.toml", config+"\n[git]\nhooks = \"run\"\n")
	d.start()
	d.user("polisctl agents stop alice; polisctl agents start alice")
	require.Equal(t, "interpreter python3\n", d.sh("alice", ".venv/bin/python3"))
	r := d.exec("alice", "sh", "-c", "echo AKIA > k; git add k; git commit -qm k")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "a secret is in the commit")
	again := d.addAs("bob")
	for _, gone := range []string{"hooks", "Docker", "extra_mounts"} {
		require.NotContains(t, again, gone)
	}
	require.Contains(t, d.addAs("carol", "--deny secret/"), `("vendor/theme") whose directories are empty in agent carol, because its rules withhold files`)
}
