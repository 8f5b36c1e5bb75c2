package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// seed writes files into a repository and gives them to the agents' user.
func (d *daemon) seed(repo string, files map[string]string) {
	d.t.Helper()
	for name, text := range files {
		require.NoError(d.t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))
		require.NoError(d.t, os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644))
	}
	d.giveAway(repo)
}

func TestIgnoredFilesOfTheProjectShowInEveryAgent(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	d.seed(repo, map[string]string{".gitignore": "node_modules/\n.env*\ncerts/\nprivate/\n", ".worktreeinclude": "certs/\n!.env.production\n"})
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "What is ignored")
	d.seed(repo, map[string]string{
		"node_modules/left/i.js": "module.exports = 7\n", "node_modules/left/package.json": `{"name":"left","main":"i.js"}`,
		".env": "SECRET=1\n", ".env.local": "LOCAL=1\n", ".env.production": "KEY=1\n", "certs/dev.pem": "pem\n", "private/x": "x\n", "untracked.txt": "u\n",
	})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	d.add("bob")
	d.add("carol", "--hide", ".env*")
	tree := func(agent string) []string { return glob(d.path("ws", ".polis", "worktrees", agent, "*")) }
	t.Run("seen, not copied", func(t *testing.T) {
		require.Equal(t, "SECRET=1\nLOCAL=1\npem\nmodule.exports = 7\n", d.sh("alice", "cat .env .env.local certs/dev.pem node_modules/left/i.js"))
		for _, name := range []string{".env.production", "private", "untracked.txt"} {
			require.NotZero(t, d.exec("alice", "ls", name).code, name)
		}
		require.Contains(t, d.sh("alice", "ls -A"), ".env\n")
		require.Equal(t, "regular file", strings.TrimSpace(d.sh("alice", "stat -c %F .env")))
		require.NotEmpty(t, tree("alice"))
	})
	t.Run("git sees nothing", func(t *testing.T) {
		require.Empty(t, d.sh("alice", "git status --porcelain; git add -A; git status --porcelain"))
	})
	t.Run("rules win", func(t *testing.T) {
		require.Contains(t, d.exec("carol", "cat", ".env").stderr, "No such file")
		require.NotContains(t, d.sh("carol", "ls -A"), ".env")
		require.Equal(t, "7\n", d.sh("carol", "grep -o 7 node_modules/left/i.js"))
	})
	t.Run("private on the first change", func(t *testing.T) {
		d.sh("alice", "echo SECRET=alice > .env; echo more >> node_modules/left/i.js; rm -r certs; mkdir node_modules/new; mv .env.local .env.mine")
		require.Equal(t, "SECRET=1\nLOCAL=1\npem\nmodule.exports = 7\n", d.sh("bob", "cat .env .env.local certs/dev.pem node_modules/left/i.js"))
		require.Equal(t, "SECRET=1\n", readFile(filepath.Join(repo, ".env")))
		require.Equal(t, "module.exports = 7\n", readFile(filepath.Join(repo, "node_modules/left/i.js")))
		require.Equal(t, "pem\n", readFile(filepath.Join(repo, "certs/dev.pem")))
		require.Equal(t, "SECRET=alice\nLOCAL=1\nmodule.exports = 7\nmore\n", d.sh("alice", "cat .env .env.mine node_modules/left/i.js"))
		require.NotZero(t, d.exec("alice", "ls", "certs").code)
		require.Empty(t, d.locks(), "what git ignores takes no lock")
		require.Empty(t, d.sh("alice", "git status --porcelain"))
	})
	t.Run("what the user changes shows until it is private", func(t *testing.T) {
		d.seed(repo, map[string]string{".env": "SECRET=2\n", ".env.new": "NEW=1\n"})
		d.eventually("bob sees the new file", func() bool {
			return d.exec("bob", "sh", "-c", "cat .env .env.new; ls -A | grep -c env.new").stdout == "SECRET=2\nNEW=1\n1\n"
		})
		require.Equal(t, "SECRET=alice\n", d.sh("alice", "cat .env"))
	})
	t.Run("kept over a restart of the agent", func(t *testing.T) {
		d.must("agents", "stop", "alice")
		d.must("agents", "start", "alice")
		require.Equal(t, "SECRET=alice\n", d.sh("alice", "cat .env"))
		require.NotZero(t, d.exec("alice", "ls", "certs").code)
	})
	t.Run("no part of the work", func(t *testing.T) {
		d.sh("bob", "echo work > work.txt; git add work.txt; git commit -qm work")
		d.must("merge", "bob")
		require.Equal(t, "work\n", readFile(filepath.Join(repo, "work.txt")))
		d.must("agents", "remove", "bob", "--force")
		require.Equal(t, "SECRET=2\n", readFile(filepath.Join(repo, ".env")))
		require.NoDirExists(t, d.path("ws", ".polis", "overlays", "bob"))
	})
	t.Run("a name that was absent shows once it is shared", func(t *testing.T) {
		require.NotZero(t, d.exec("alice", "test", "-e", "private/x").code)
		d.seed(repo, map[string]string{".worktreeinclude": "certs/\nprivate/\n"})
		d.eventually("alice sees it, without listing a directory", func() bool { return d.exec("alice", "test", "-e", "private/x").code == 0 })
	})
}

// npmProject is a project that depends on a package with a program and a large
// file, and the registry to get it from.
func (d *daemon) npmProject() string {
	d.t.Helper()
	repo := d.smallRepo()
	registry, err := os.ReadFile("testdata/registry.js")
	require.NoError(d.t, err)
	manifest := `{"name":"left","version":"1.0.0","main":"i.js","bin":{"left":"run.js"}}`
	d.seed(repo, map[string]string{
		"package.json": `{"name":"app","version":"1.0.0","dependencies":{"left":"^1.0.0"}}`,
		".npmrc":       "registry=http://127.0.0.1:4873/\n", "registry/registry.js": string(registry), "registry/left.json": manifest,
	})
	left := d.path("left")
	d.seed(left, map[string]string{"package.json": manifest, "i.js": "module.exports = 7\n",
		"run.js": "#!/usr/bin/env node\nconsole.log('left runs')\n", "data.bin": strings.Repeat("0123456789abcdef", 1<<17)})
	pack := exec.CommandContext(d.t.Context(), "npm", "pack", "--silent", left)
	pack.Dir = filepath.Join(repo, "registry")
	out, err := pack.CombinedOutput()
	require.NoError(d.t, err, string(out))
	d.giveAway(repo)
	git(d.t, repo, "add", "-A")
	git(d.t, repo, "commit", "-qm", "A package")
	d.giveAway(repo)
	return repo
}

// withRegistry runs a command in an agent while the registry is there.
func (d *daemon) withRegistry(agent, command string) string {
	d.t.Helper()
	return d.sh(agent, "node registry/registry.js & r=$!; trap 'kill $r' EXIT; for i in $(seq 100); do curl -s http://127.0.0.1:4873/left >/dev/null && break; sleep 0.1; done; "+
		"("+command+") 2>&1")
}

func statOf(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return &st
}

// Feature: multi-agent-workspaces, Property 16: Dependency Deduplication
// Feature: multi-agent-workspaces, Property 17: npm to pnpm Interception
func TestNpmInstallIsDoneByPnpmAndFilesAreKeptOnce(t *testing.T) {
	needProgram(t, "npm")
	needProgram(t, "pnpm")
	// package-lock.json belongs to the repository, so it takes a lease.
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.must("up", "--repo", d.npmProject(), d.path("ws"))
	for _, a := range []string{"alice", "bob"} {
		d.add(a, "--memory", "1024")
		out := d.withRegistry(a, "npm install")
		require.Contains(t, out, "pnpm", out)
		require.Equal(t, "7\nleft runs\n", d.sh(a, "node -p 'require(\"left\")'; node_modules/.bin/left"))
		d.sh(a, "test -e node_modules/.modules.yaml") // pnpm was here
		require.Equal(t, "?? package-lock.json\n", d.sh(a, "git status --porcelain"), "the project keeps npm's lock file")
		require.NotContains(t, d.sh(a, "ls -A"), ".pnpm-store")
	}
	in := func(agent, name string) string {
		return d.path("ws", ".polis", "worktrees", agent, "node_modules", "left", name)
	}
	// Above a base tree each agent has copies.
	if os.Getenv("POLIS_E2E_WORKTREE") != "shared" {
		d.keptOnce(in)
	}

	d.sh("alice", "echo 'module.exports = 8' > node_modules/left/i.js; chmod 600 node_modules/left/run.js; touch -d @1 node_modules/left/data.bin; rm node_modules/left/package.json")
	require.Equal(t, "7\nleft runs\n", d.sh("bob", "node -p 'require(\"left\")'; node_modules/.bin/left"))
	require.Equal(t, "8\n", d.sh("alice", "node -p 'require(\"./node_modules/left/i.js\")'"))
	require.NotEqual(t, statOf(t, in("alice", "data.bin")).Ino, statOf(t, in("bob", "data.bin")).Ino)
	require.NotEqual(t, int64(1), statOf(t, in("bob", "data.bin")).Mtim.Sec)

	d.withRegistry("alice", "npm ci")
	require.Equal(t, "7\n", d.sh("alice", "node -p 'require(\"left\")'"))
	d.withRegistry("alice", "npm uninstall left")
	require.NotZero(t, d.exec("alice", "ls", "node_modules/left").code)
	require.NotContains(t, d.sh("alice", "cat package.json"), "left")
	require.Equal(t, "7\n", d.sh("bob", "node -p 'require(\"left\")'"))
	d.must("agents", "remove", "alice", "--force")
	require.Equal(t, "7\n", d.sh("bob", "node -p 'require(\"left\")'"))
}

// keptOnce checks that the files of the package that two agents installed are on the disk once.
func (d *daemon) keptOnce(in func(agent, name string) string) {
	t := d.t
	t.Helper()
	for _, name := range []string{"i.js", "run.js", "data.bin", "package.json"} {
		a, b := statOf(t, in("alice", name)), statOf(t, in("bob", name))
		require.Equal(t, a.Ino, b.Ino, name)
	}
	// It is on the disk once, under any name.
	inodes := map[uint64]uint64{}
	for _, dir := range []string{"store", "overlays"} {
		require.NoError(t, filepath.WalkDir(d.path("ws", ".polis", dir), func(p string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if st := statOf(t, p); st.Size == 1<<21 {
					inodes[st.Ino] = uint64(st.Nlink)
				}
			}
			return err
		}))
	}
	require.Equal(t, map[uint64]uint64{statOf(t, in("alice", "data.bin")).Ino: 5}, inodes, "one in the store, two for each agent")
}

func TestNpmItselfInstallsForOneAgentAlone(t *testing.T) {
	needProgram(t, "npm")
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n[shared]\npnpm = false\n"})
	d.must("up", "--repo", d.npmProject(), d.path("ws"))
	for _, a := range []string{"alice", "bob"} {
		d.add(a, "--memory", "1024")
		d.withRegistry(a, "npm install --no-audit --no-fund")
		require.Equal(t, "7\n", d.sh(a, "node -p 'require(\"left\")'"))
	}
	d.sh("alice", "echo 'module.exports = 8' > node_modules/left/i.js")
	require.Equal(t, "7\n", d.sh("bob", "node -p 'require(\"left\")'"))
	require.NoDirExists(t, d.path("ws", ".polis", "store"))
}

// An installed project's packages show in the agent, and installing there
// continues from them without touching them.
func TestInstallingOverThePackagesOfTheProject(t *testing.T) {
	needProgram(t, "npm")
	needProgram(t, "pnpm")
	d := startDaemon(t, options{})
	repo := d.npmProject()
	d.seed(repo, map[string]string{"node_modules/left/i.js": "module.exports = 6\n", "node_modules/left/package.json": `{"name":"left","version":"0.9.0","main":"i.js"}`})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice", "--memory", "1024")
	require.Equal(t, "6\n", d.sh("alice", "node -p 'require(\"left\")'"))
	d.withRegistry("alice", "npm install")
	require.Equal(t, "7\n", d.sh("alice", "node -p 'require(\"left\")'"))
	require.Equal(t, "module.exports = 6\n", readFile(filepath.Join(repo, "node_modules/left/i.js")))
	require.Len(t, glob(filepath.Join(repo, "node_modules", "left", "*")), 2)
}
