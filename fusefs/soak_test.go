package fusefs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten views under mixed load: at the end the bytes are those that were written,
// and nothing has grown. POLIS_SOAK=10m makes it long.
func TestTenViewsUnderLoadKeepEveryByteAndNothingElse(t *testing.T) {
	needFUSE(t)
	tool(t, "git")
	length := 8 * time.Second
	if s := os.Getenv("POLIS_SOAK"); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		require.NoError(t, err, "POLIS_SOAK is a duration")
	}
	views := make([]*view, 10)
	for i := range views {
		views[i] = mountView(t, func(c *Config) {
			c.DirDescriptors = 32
			c.NoPassthrough, c.NoRing = i == 8, i%2 == 1
			if i == 9 {
				c.Timeout = -1
			}
		})
		for _, d := range []string{"one", "two", "git", "hidden"} {
			require.NoError(t, os.Mkdir(views[i].raw(d), 0o755))
		}
		write(t, views[i].raw("hidden/f"), "x")
	}
	forgotten(t, views)
	before := usage()

	seconds := strconv.FormatFloat(length.Seconds(), 'f', 3, 64)
	var jobs []*exec.Cmd
	var outs []*bytes.Buffer
	start := func(c *exec.Cmd) {
		out := &bytes.Buffer{}
		c.Stdout, c.Stderr, c.Dir = out, out, "/"
		require.NoError(t, c.Start())
		jobs, outs = append(jobs, c), append(outs, out)
	}
	for i, v := range views {
		start(helper(t, "soak", v.in("one"), seconds, strconv.Itoa(2*i)))
		start(helper(t, "soak", v.in("two"), seconds, strconv.Itoa(2*i+1)))
		start(helper(t, "roam", v.mnt, seconds))
		start(gitLoop(t, v.in("git"), length))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, v := range views {
		wg.Go(func() { swapPolicies(v, stop) })
	}
	for i, c := range jobs {
		err := c.Wait()
		require.NoError(t, err, "%v: %s", c.Args, outs[i].String())
	}
	close(stop)
	wg.Wait()

	for i, v := range views {
		for j, d := range []string{"one", "two"} {
			want := map[string]string{}
			require.NoError(t, json.Unmarshal(outs[4*i+j].Bytes(), &want))
			require.Equal(t, want, sums(t, v.in(d)), "through the view")
			require.Equal(t, want, sums(t, v.raw(d)), "on the disk")
		}
		runtime.KeepAlive(v)
	}
	forgotten(t, views)
	require.Eventually(t, func() bool {
		now := usage()
		return now.descriptors <= before.descriptors+10 && now.heap <= before.heap+8<<20
	}, 20*time.Second, 100*time.Millisecond, "before %+v, now %+v", before, usage())
	t.Logf("%v: before %+v, after %+v", length, before, usage())
}

// forgotten has the kernel forget what nobody uses, and waits until the views
// have forgotten it too.
func forgotten(t *testing.T, views []*view) {
	t.Helper()
	for _, v := range views {
		require.Eventually(t, func() bool { return v.g.tickets() == 0 }, 30*time.Second, time.Millisecond, "files are released")
	}
	left := ""
	require.Eventually(t, func() bool {
		require.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0)) //nolint:gosec // names and inodes only
		time.Sleep(50 * time.Millisecond)
		left = ""
		for i, v := range views {
			if n := len(v.fs.tree.All()); n > 20 {
				left += fmt.Sprintf("view %d still knows %d inodes; ", i, n)
			}
		}
		return left == ""
	}, 30*time.Second, 100*time.Millisecond, "inodes stay")
	for _, v := range views {
		require.Empty(t, v.fs.files.All(), "open files stay")
		require.LessOrEqual(t, v.fs.layers.Descriptors(), 32)
	}
}

type used struct {
	descriptors int
	heap        uint64
}

func usage() used {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return used{descriptors: 1 << 30}
	}
	return used{len(es), m.HeapAlloc}
}

// swapPolicies hides a directory and shows it, denies and allows it, notifies the
// kernel each time, and says now and then that something changed behind the view.
func swapPolicies(v *view, stop chan struct{}) {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			v.g.set(func() { v.g.visible, v.g.read = nil, nil })
			return
		case <-tick.C:
		}
		v.g.set(func() {
			v.g.visible, v.g.read = nil, nil
			v.g.reads, v.g.writes = nil, nil // the books of the test itself
			switch i % 3 {
			case 0:
				v.g.visible = func(p string, _ bool) bool { return !strings.HasPrefix(p, "hidden") }
			case 1:
				v.g.read = func(_ ctxT, op Op, p string) syscall.Errno {
					if strings.HasPrefix(p, "hidden/") && op == OpOpenRead {
						return syscall.EACCES
					}
					return 0
				}
			}
		})
		if i%4 == 3 {
			v.fs.InvalidatePath("one")
		} else {
			v.fs.InvalidateAll()
		}
	}
}

// gitLoop commits, switches and throws away for a while.
func gitLoop(t *testing.T, dir string, length time.Duration) *exec.Cmd {
	c := exec.CommandContext(t.Context(), "/bin/sh", "-euc", `cd "$1"
		git init -q -b main .; git config user.name n; git config user.email e@example.org; git config gc.auto 0
		echo 0 > base; git add .; git commit -qm base
		end=$(($(date +%s) + $2)); i=0
		while [ $(date +%s) -lt $end ]; do
			i=$((i + 1)); mkdir -p d$((i % 3)); echo $i > d$((i % 3))/f$((i % 20))
			git add -A; git commit -qm $i; git checkout -q -b b$i HEAD~1; git status --short; git checkout -q main
			git branch -q -D b$i; git clean -qfd
		done
		git fsck --strict --no-dangling; test -z "$(git status --short)"`, "sh", dir, strconv.Itoa(int(length.Seconds())))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	return c
}

func sums(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		h := sha256.Sum256(b)
		out[p[len(root)+1:]] = hex.EncodeToString(h[:])
		return err
	}))
	return out
}
