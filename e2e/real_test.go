package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// goEnv makes Go work inside, without a network.
func goEnv(t testing.TB) string {
	return "export PATH=" + goroot(t) + "/bin:$PATH GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off; "
}

// upGo puts a Go module of some hundred files under polis.
func (d *daemon) upGo() {
	d.t.Helper()
	out, err := exec.CommandContext(d.t.Context(), "../scripts/demo-repo", d.path("src")).CombinedOutput()
	require.NoError(d.t, err, string(out))
	d.giveAway(d.path("src"))
	d.must("up", "--repo", d.path("src"), d.path("ws"))
}

func TestTwoAgentsBuildAndTestAtTheSameTime(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\n"})
	d.upGo()
	agents, env := []string{"alice", "bob"}, goEnv(t)
	for _, a := range agents {
		d.add(a, "--memory", "2048")
	}
	var wg sync.WaitGroup
	results := make([]result, len(agents))
	for i, a := range agents {
		wg.Add(1)
		go func() {
			defer wg.Done()
			// Each command has a deadline of its own: on a busy machine the first compiles for minutes.
			for _, script := range []string{
				"go build ./...", "go build -o out/server ./cmd/server && go test ./container/... ./text/...", "go test ./html && git status --porcelain",
			} {
				if results[i] = d.exec(a, "sh", "-ec", env+script); results[i].code != 0 {
					return
				}
			}
		}()
	}
	wg.Wait()
	for i := range agents {
		require.Zero(t, results[i].code, results[i].String())
		require.Contains(t, results[i].stdout, "ok  \texample.com/demo/html")
		require.NotContains(t, results[i].stdout, "??", "the build's output is ignored")
	}
	require.Empty(t, d.locks(), "building takes no lease")
}

func TestRealPrograms(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "1024")
	for _, c := range []struct{ name, needs, script string }{
		{"ripgrep and find", "rg", "rg -q three . && test $(find . -name '*.txt' -not -path './.git/*' | wc -l) -ge 4"},
		{"sqlite in WAL mode", "sqlite3", `sqlite3 data.db 'pragma journal_mode=wal; create table t(x); insert into t values (1),(2); select sum(x) from t;' | grep -qx 3
for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' data.db "with recursive c(n) as (select 1 union all select n+1 from c where n<200) insert into t select n from c;" & done; wait
sqlite3 data.db 'pragma integrity_check; select count(*) from t;' | tr '\n' ' ' | grep -q 'ok 802'`},
		{"mmap writers", "python3", `/usr/bin/python3 -c '
import mmap
with open("map.bin","wb") as f: f.write(b"\0"*65536)
with open("map.bin","r+b") as f:
    m=mmap.mmap(f.fileno(),0); m[1000:1005]=b"hello"; m.flush(); m.close()
assert open("map.bin","rb").read()[1000:1005]==b"hello"'`},
		{"flock", "flock", `: > l; ( flock 9; : > $HOME/has; until test -e $HOME/over; do sleep 0.05; done ) 9>l & until test -e $HOME/has; do sleep 0.05; done; flock -n l true && exit 1; : > $HOME/over; wait; flock -n l true`},
		{"fcntl locks", "python3", `/usr/bin/python3 -c '
import fcntl, os
f=open("fl","w"); fcntl.lockf(f, fcntl.LOCK_EX)
pid=os.fork()
if pid==0:
    g=open("fl","w")
    try: fcntl.lockf(g, fcntl.LOCK_EX|fcntl.LOCK_NB); os._exit(1)
    except OSError: os._exit(0)
assert os.waitpid(pid,0)[1]==0'`},
		{"executable scripts", "", "./run.sh | grep -q run && cp run.sh r2.sh && chmod +x r2.sh && ./r2.sh"},
		{"tar and back", "tar", "tar cf - src | (mkdir -p copy && cd copy && tar xf -) && diff -r src copy/src && rm -r copy"},
		{"rsync-like metadata", "cp", "cp -a src src3 && test $(stat -c %Y src/a.txt) = $(stat -c %Y src3/a.txt) && rm -rf src3"},
		{"symlinks within", "", "ln -s src/a.txt link && test \"$(cat link)\" = a && rm link"},
		{"unlinked and still open", "python3", `/usr/bin/python3 -c '
import os
f=open("gone","w+"); os.unlink("gone"); f.write("x"); f.flush(); f.seek(0); assert f.read()=="x"; assert os.fstat(f.fileno()).st_size==1'`},
		{"long names and many files", "", `n=$(printf 'n%.0s' $(seq 200)); mkdir -p many; for i in $(seq 300); do : > many/$n$i; done; test $(ls many | wc -l) = 300; rm -r many; test ! -e many`},
		{"sparse and large", "truncate", "truncate -s 1G big && test $(stat -c %s big) = 1073741824 && dd if=/dev/zero of=big bs=1M count=4 seek=500 conv=notrunc 2>/dev/null && rm big"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != "" {
				needProgram(t, c.needs)
			}
			r := d.exec("alice", "sh", "-ec", c.script)
			require.Zero(t, r.code, r.String())
		})
	}
}

// TestNpmInstallInBoth installs packages that the test makes, without a registry.
func TestNpmInstallInBoth(t *testing.T) {
	needProgram(t, "npm")
	npm, err := exec.LookPath("npm")
	require.NoError(t, err)
	if real, err := filepath.EvalSymlinks(npm); err != nil || !strings.HasPrefix(real, "/usr/") {
		t.Skip("npm is not where a sandbox sees it")
	}
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\n"})
	repo := d.smallRepo()
	dep := filepath.Join(repo, "vendor", "left")
	require.NoError(t, os.MkdirAll(dep, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dep, "package.json"), []byte(`{"name":"left","version":"1.0.0","main":"i.js"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dep, "i.js"), []byte("module.exports = 7\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "package.json"), []byte(`{"name":"app","version":"1.0.0","dependencies":{"left":"file:left-1.0.0.tgz"}}`), 0o644))
	pack := exec.CommandContext(t.Context(), npm, "pack", "--silent", dep)
	pack.Dir = repo
	out, err := pack.CombinedOutput()
	require.NoError(t, err, string(out))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "package")
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice", "--memory", "1024")
	d.add("bob", "--memory", "1024")
	var wg sync.WaitGroup
	results := map[string]result{}
	var mu sync.Mutex
	for _, a := range []string{"alice", "bob"} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := d.exec(a, "sh", "-ec", "npm install --offline --no-audit --no-fund --no-package-lock 2>&1; node -p 'require(\"left\")'; test -f node_modules/left/i.js")
			mu.Lock()
			defer mu.Unlock()
			results[a] = r
		}()
	}
	wg.Wait()
	for a, r := range results {
		require.Zero(t, r.code, "%s: %s", a, r)
		require.Contains(t, r.stdout, "7")
	}
	require.Empty(t, d.locks())
}

// TestProjectOfAnotherUser: agents run as the project's owner, whichever user that is.
func TestProjectOfAnotherUser(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	const uid = 4242
	require.NoError(t, filepath.WalkDir(repo, func(p string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Lchown(p, uid, uid)
	}))
	d.must("up", "--repo", repo, d.path("ws"))
	a := d.add("alice")
	require.Equal(t, "4242\n", d.sh("alice", "echo x > mine; id -u"))
	fi, err := os.Stat(filepath.Join(a.WorktreePath, "mine"))
	require.NoError(t, err)
	require.EqualValues(t, uid, owns(fi))
	d.sh("alice", ident+"git add -A; git commit -qm x")
	d.must("merge", "alice")
	fi, err = os.Stat(filepath.Join(repo, "mine"))
	require.NoError(t, err)
	require.EqualValues(t, uid, owns(fi), "and the merge leaves the owner's files the owner's")
}

func TestProjectOfRootRunsAsTheConfiguredUser(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	require.NoError(t, filepath.WalkDir(repo, func(p string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Lchown(p, 0, 0)
	}))
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	require.NotEqual(t, "0\n", d.sh("alice", "id -u"))
	d.sh("alice", ident+"echo x >> main.txt; echo y > new; git add -A; git commit -qm x")
	d.must("merge", "alice")
	require.Equal(t, "y\n", readFile(filepath.Join(repo, "new")))
}
