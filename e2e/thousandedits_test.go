package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// editor makes random edits of a few paths, as programs do: SEED COUNT.
const editor = `
import mmap, os, random, shutil, stat, sys
r = random.Random(int(sys.argv[1]))
paths = ["r/" + p for p in ["a", "b", "c", "d", "d/a", "d/e", "d/e/f", "g", "g/h", "g/i"]]
os.makedirs("r", exist_ok=True)
def text(): return r.randbytes(r.randint(0, 9)) * r.randint(1, 3000)
def edit(p, q, what):
    if what == "write":
        with open(p, "wb") as f: f.write(text())
    elif what == "append":
        with open(p, "ab") as f: f.write(text())
    elif what == "truncate": os.truncate(p, r.randint(0, 9000))
    elif what == "map":
        with open(p, "r+b") as f:
            m = mmap.mmap(f.fileno(), 0); m[0:1] = b"M"; m.flush() if r.random() < .5 else None; m.close()
    elif what == "chmod":
        if not os.path.islink(p): os.chmod(p, 0o700 + r.randint(0, 63))
    elif what == "symlink":
        if os.path.lexists(p): os.unlink(p)
        os.symlink("to/%d" % r.randint(0, 9), p)
    elif what == "link": os.link(p, q)
    elif what == "rename": os.rename(p, q)
    elif what == "unlink": os.unlink(p)
    elif what == "mkdir": os.mkdir(p)
    elif what == "rmdir": os.rmdir(p)
    elif what == "tree":
        if os.path.isdir(p) and not os.path.islink(p): shutil.rmtree(p)
    elif what == "xattr": os.setxattr(p, "user.x", text()[:100], follow_symlinks=False)
    elif what == "noxattr": os.removexattr(p, "user.x", follow_symlinks=False)
done = 0
for _ in range(100 * int(sys.argv[2])):
    if done == int(sys.argv[2]): break
    p, q = r.sample(paths, 2)
    try:
        edit(p, q, r.choice("write write write append truncate map chmod symlink link rename unlink mkdir mkdir rmdir tree xattr noxattr".split()))
        done += 1
    except (OSError, ValueError):
        pass
print(done)
`

// TestAThousandEditsWhileBothAreKilled: an agent makes random edits through its view, with checkpoints in between. polisd and the
// shim are killed at random moments: between them, while it edits, during a checkpoint and during a rewind. Each checkpoint
// is then reached and has the bytes, modes, links and attributes of its time.
func TestAThousandEditsWhileBothAreKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\nkeep = 1000\n", restores: true})
	d.up()
	d.add("alice")
	d.sh("alice", "mkdir -p ~/e && cat >~/e/edit.py <<'END'\n"+editor+"END\n")
	type state struct{ hash, metadata string }
	now := func() state {
		s := d.snapshot("alice")
		return state{s.Hash, s.Metadata}
	}
	killPolisd := func() { // it may be at any instruction
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		require.Error(t, d.signal(syscall.SIGKILL))
		d.start()
	}
	killShim := func() {
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		for _, pid := range d.shimPIDs() {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	up := func() {
		d.eventually("the agent is up", func() bool {
			d.ctl("agents", "start", "alice")
			return d.exec("alice", "true").code == 0
		})
	}
	while := func(args []string, kill func()) {
		var wg sync.WaitGroup
		wg.Go(func() { d.ctl(args...) }) // whatever becomes of it
		kill()
		wg.Wait()
	}
	want, ids, edits := map[string]state{}, []string{}, 0
	for round := 0; edits < 1000; round++ {
		script := fmt.Sprintf("python3 ~/e/edit.py %d 60", r.Int32())
		var n int
		_, err := fmt.Sscan(d.sh("alice", script), &n)
		require.NoError(t, err)
		edits += n
		switch round % 6 {
		case 1:
			killPolisd()
		case 2:
			while([]string{"checkpoint", "alice"}, killPolisd)
		case 3:
			while([]string{"agents", "exec", "alice", "--", "sh", "-c", fmt.Sprintf("python3 ~/e/edit.py %d 600", r.Int32())}, killShim)
			up()
		case 4:
			if len(ids) > 0 {
				while([]string{"rewind", "alice", "--to", ids[r.IntN(len(ids))]}, killPolisd)
			}
		case 5:
			while([]string{"checkpoint", "alice"}, killShim)
			up()
		}
		s := d.checkpoint("alice")
		is := now()
		if w, ok := want[s.ID]; ok {
			require.Equal(t, w, is, "nothing has changed since checkpoint %s", s.ID)
			continue
		}
		ids, want[s.ID] = append(ids, s.ID), is
	}
	t.Logf("%d edits, %d checkpoints", edits, len(ids))
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for i, id := range ids {
		d.rewind("alice", "--to", id)
		require.Equal(t, want[id], now(), id)
		if i == len(ids)/2 {
			killShim()
			up()
			require.Equal(t, want[id], now(), "after the shim was killed")
		}
	}
	for _, id := range ids {
		require.Contains(t, d.must("snapshot", "verify", id), "is intact")
	}
	left, err := filepath.Glob(filepath.Join(d.path("ws", ".polis", "snapshots", "restoring"), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
