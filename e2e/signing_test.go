package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// signer is a person with a home directory of its own, who owns a project.
type signer struct {
	d    *daemon
	home string
	repo string
}

// newSigner makes the home and the project. Its git configuration is config.
func newSigner(d *daemon, config string) signer {
	d.t.Helper()
	s := signer{d, d.path("person"), d.smallRepo()}
	require.NoError(d.t, os.MkdirAll(s.home, 0o700))
	require.NoError(d.t, exec.Command("chown", "-R", "0:0", s.repo).Run())
	d.write("person/.gitconfig", "[user]\n\tname = Ann Owner\n\temail = ann@example.org\n"+config)
	return s
}

// run runs a program as the person. Its output has that of the program.
func (s signer) run(name string, args ...string) result {
	cmd := exec.CommandContext(s.d.t.Context(), name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GIT_CONFIG_NOSYSTEM=1", "POLIS_SOCKET=" + s.d.path("run", "polisd.sock")}
	cmd.Dir = s.repo
	return capture(cmd, "")
}

func (s signer) must(name string, args ...string) string {
	s.d.t.Helper()
	r := s.run(name, args...)
	require.Zero(s.d.t, r.code, "%s %s: %s", name, strings.Join(args, " "), r)
	return r.stdout + r.stderr
}

func (s signer) polisctl(args ...string) result {
	return s.run(filepath.Join(s.d.bin, "polisctl"), args...)
}

// TestMergesWaitForASignature: a person signs with ssh; the signature is what git verifies.
func TestMergesWaitForASignature(t *testing.T) {
	needProgram(t, "ssh-keygen")
	d := startDaemon(t, options{config: "[merge]\nsign = true\ncheck = \"test ! -e bad.txt\"\n"})
	s := newSigner(d, "[gpg]\n\tformat = ssh\n[gpg \"ssh\"]\n\tallowedSignersFile = ~/signers\n[commit]\n\tgpgSign = true\n")
	s.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.home+"/key")
	s.must("git", "config", "user.signingKey", s.home+"/key.pub") // of this project
	d.write("person/signers", "ann@example.org "+readFile(s.home+"/key.pub"))
	require.NotContains(t, d.must("up", "--repo", s.repo, d.path("ws")), "signed", "merges wait for a signature")

	// A task that ends well leaves its branch pending.
	d.worker("alice")
	d.task("alice", commitOf("alice.txt", "alice"))
	d.fate("alice", api.MergePending)
	d.eventually("the outcome", func() bool {
		return slices.ContainsFunc(d.queues().Recent, func(o api.QueueOutcome) bool { return o.Agent == "alice" && o.Code == api.CodeSignatureRequired })
	})
	e := d.refused(api.CodeSignatureRequired, "merge", "alice")
	require.Contains(t, e.Hint, "polisctl merge alice --sign")
	require.NoFileExists(t, s.repo+"/alice.txt")

	r := s.polisctl("--json", "merge", "alice", "--sign", "-m", "Take alice's work")
	require.Zero(t, r.code, "%s", r)
	var got api.MergeResponse
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Equal(t, "updated", got.Project, got.Note)
	require.FileExists(t, s.repo+"/alice.txt")
	require.Contains(t, s.must("git", "verify-commit", got.MergeCommitSHA), `Good "git" signature for ann@example.org`)
	require.Equal(t, "Ann Owner <ann@example.org> Ann Owner\n", s.must("git", "log", "-1", "--format=%an <%ae> %cn", "main"))
	require.Equal(t, "Take alice's work\n\nMerged-by: polis\nPolis-Agent: alice\n\n", s.must("git", "log", "-1", "--format=%B", "main"))
	d.fate("alice", api.MergeMerged)
	git(t, d.bare(), "fsck", "--strict", "--no-dangling")

	require.Contains(t, d.must("--json", "revert", "alice"), "the commit of the revert is not signed")

	// The check runs on what is signed, and a signature does not help a branch that is refused.
	d.add("bad")
	d.sh("bad", ident+"echo x > bad.txt; git add bad.txt; git commit -qm bad")
	r = s.polisctl("merge", "bad", "--sign")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "the check ended with exit code 1")

	// The target moves while the person signs: the merge is signed again.
	d.add("carl")
	d.sh("carl", ident+"echo c > carl.txt; git add carl.txt; git commit -qm carl")
	d.write("person/slow", "#!/bin/sh\n[ -e $HOME/moved ] || { touch $HOME/moved; cd "+s.repo+"; env -i PATH=$PATH HOME=$HOME git -c commit.gpgSign=false commit -q --allow-empty -m meanwhile; }\nexec ssh-keygen \"$@\"\n")
	require.NoError(t, os.Chmod(d.path("person", "slow"), 0o755))
	s.must("git", "config", "gpg.ssh.program", s.home+"/slow")
	r = s.polisctl("merge", "carl", "--sign")
	require.Zero(t, r.code, "%s", r)
	require.FileExists(t, s.home+"/moved")
	require.Contains(t, s.must("git", "verify-commit", "main"), "Good")
	require.Equal(t, "meanwhile\n", s.must("git", "log", "-1", "--format=%s", "main^1"))

	// One that never rests ends that.
	d.sh("carl", ident+"echo d > carl.txt; git commit -qam carl")
	d.write("person/slow", "#!/bin/sh\ncd "+s.repo+"; env -i PATH=$PATH HOME=$HOME git -c commit.gpgSign=false commit -q --allow-empty -m meanwhile; echo x >> $HOME/tries\nexec ssh-keygen \"$@\"\n")
	r = s.polisctl("merge", "carl", "--sign")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "hint: sign it again: polisctl merge carl --sign")
	require.Equal(t, "x\nx\nx\n", readFile(s.home+"/tries"))

	// What an agent's branch brings into the checkout is no program of the person's git.
	d.add("eve")
	d.sh("eve", ident+"mkdir -p tools; printf '#!/bin/sh\\ntouch /tmp/polis-e2e-signed; exit 1\\n' | tee ssh-keygen > tools/sign; chmod +x ssh-keygen tools/sign; git add .; git commit -qm tools")
	s.must("git", "config", "gpg.ssh.program", "ssh-keygen")
	require.Zero(t, s.polisctl("merge", "eve", "--sign").code)
	require.FileExists(t, s.repo+"/tools/sign")
	s.must("git", "config", "gpg.ssh.program", "tools/sign")
	d.sh("eve", ident+"echo 2 > two.txt; git add .; git commit -qm two")
	r = s.polisctl("merge", "eve", "--sign")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "nothing was merged")
	require.NoFileExists(t, "/tmp/polis-e2e-signed")
	require.NoFileExists(t, s.repo+"/two.txt")
}

// TestAMergeIsSignedOnRequest: with gpg, where nothing requires it; up reports that other merges are not.
func TestAMergeIsSignedOnRequest(t *testing.T) {
	needProgram(t, "gpg")
	d := startDaemon(t, options{})
	s := newSigner(d, "")
	t.Cleanup(func() { s.run("gpgconf", "--homedir", s.home+"/.gnupg", "--kill", "all") })
	require.NoError(t, os.MkdirAll(s.home+"/.gnupg", 0o700))
	s.must("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "Ann Owner <ann@example.org>", "ed25519", "sign", "never")
	s.must("git", "config", "commit.gpgSign", "true")
	r := d.ctl("up", "--repo", s.repo, d.path("ws"))
	require.Contains(t, r.stdout+r.stderr, "your commits are signed (commit.gpgSign), and those of agents and merges are not; polisctl merge NAME --sign")
	require.Contains(t, d.must("--json", "up", "--repo", s.repo, d.path("ws")), "commit.gpgSign")
	d.add("alice")
	d.sh("alice", ident+"echo a > alice.txt; git add alice.txt; git commit -qm alice")
	r = s.polisctl("merge", "alice", "--sign")
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, s.must("git", "verify-commit", "main"), `Good signature from "Ann Owner <ann@example.org>"`)
	// Without a key nothing is merged.
	s.must("gpgconf", "--homedir", s.home+"/.gnupg", "--kill", "all")
	require.NoError(t, os.RemoveAll(s.home+"/.gnupg"))
	d.sh("alice", ident+"echo b > b.txt; git add b.txt; git commit -qm b")
	before := git(t, s.repo, "rev-parse", "main")
	r = s.polisctl("merge", "alice", "--sign")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "nothing was merged; git config user.signingKey names your key")
	require.Equal(t, before, git(t, s.repo, "rev-parse", "main"))
	d.must("merge", "alice")
}

// TestAnotherUsersProjectIsNotSignedFor: its configuration names programs.
func TestAnotherUsersProjectIsNotSignedFor(t *testing.T) {
	d := startDaemon(t, options{})
	s := newSigner(d, "")
	d.giveAway(s.repo)
	d.write("person/program", "#!/bin/sh\ntouch "+d.path("ran")+"\n")
	require.NoError(t, os.Chmod(d.path("person", "program"), 0o755))
	git(t, s.repo, "config", "gpg.program", s.home+"/program")
	d.must("up", "--repo", s.repo, d.path("ws"))
	d.add("alice")
	d.sh("alice", ident+"echo a > alice.txt; git add alice.txt; git commit -qm alice")
	r := s.polisctl("merge", "alice", "--sign")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "as the owner of the project")
	require.NoFileExists(t, d.path("ran"))
}
