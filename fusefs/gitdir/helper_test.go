package gitdir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/gitdir/level"
)

func (r *repo) journal(agent string) string { return filepath.Join(r.dir, agent+".locks") }

// tableOfLocks is a table of locks in memory that refuses at once.
type tableOfLocks struct {
	mu    sync.Mutex
	held  map[string]string // key: holder
	taken []string          // "holder level ref", in order
	away  bool
	lost  bool
}

func (l *tableOfLocks) block(key, who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = who
}

func (l *tableOfLocks) free(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}

func (l *tableOfLocks) who(key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key]
}

// history are the locks an agent has taken since the last call.
func (l *tableOfLocks) history() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.taken
	l.taken = nil
	return slices.Compact(out)
}

type holder struct {
	t    *tableOfLocks
	name string
}

func keyOf(l Lock) string {
	if l.Level == level.Exclusive {
		return "all"
	}
	return l.Ref
}

func (h holder) Acquire(_ context.Context, l Lock) (Lease, error) {
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	if h.t.away {
		return nil, errors.New("the table cannot be asked")
	}
	for k, who := range h.t.held {
		if who != h.name && (k == keyOf(l) || k == "all" || l.Level == level.Exclusive) {
			return nil, &BusyError{Ref: l.Ref, Holder: who, Since: time.Now()}
		}
	}
	h.t.held[keyOf(l)] = h.name
	h.t.taken = append(h.t.taken, keyOf(l))
	return &lease{h.t, keyOf(l)}, nil
}

type lease struct {
	t   *tableOfLocks
	key string
}

func (l *lease) Release() { l.t.free(l.key) }
func (l *lease) Valid() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return !l.t.lost
}

// gitPacks looks into packs with git, as the shim does.
type gitPacks struct {
	t    *testing.T
	bare string
	own  string
}

func (p gitPacks) Sums(ctx context.Context, content, hashLen int) (PackSums, error) {
	fd, err := unix.FcntlInt(uintptr(content), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return PackSums{}, err
	}
	f := os.NewFile(uintptr(fd), "pack")
	defer f.Close()
	format := map[int]string{20: "sha1", 32: "sha256"}[hashLen]
	idx, rev, err := (&git.Runner{UID: nobody, GID: nobody}).IndexPack(ctx, f, format, p.t.TempDir())
	return PackSums{Idx: idx, Rev: rev}, err
}

func (p gitPacks) Publish(ctx context.Context, revs ...string) (int, error) {
	asked.Add(1)
	return git.Repo{Runner: &git.Runner{UID: nobody, GID: nobody}, Dir: p.bare}.Publish(ctx, p.own, revs...)
}

// asked counts the questions to git of what refs lead to.
var asked atomic.Int64

// lockFiles are the files git would stumble over, below dirs.
func lockFiles(t *testing.T, dirs ...string) []string {
	t.Helper()
	var out []string
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && (strings.HasSuffix(path, ".lock") || strings.HasSuffix(path, ".new")) {
				out = append(out, path)
			}
			return nil
		}))
	}
	return out
}
