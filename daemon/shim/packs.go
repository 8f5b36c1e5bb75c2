package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/filtered"
	"polis/fusefs/gitdir"
)

// packs runs git on packs, as the agents' user.
type packs struct {
	bare    git.Repo
	account git.Account // nil: not charged
	own     string      // the agent's own objects
	scratch string
	// filtered is the directory of the shared objects that the agent's rules allow to read, or ""
	// if they withhold none.
	filtered string
}

// Publish implements gitdir.Packs.
func (p *packs) Publish(ctx context.Context, revs ...string) (int, error) {
	ctx = git.Charged(ctx, p.account)
	if p.filtered == "" {
		return p.bare.Publish(ctx, p.own, revs...)
	}
	judge := filtered.Judge{Shared: p.bare, Own: p.own, Filtered: p.filtered}
	if err := judge.Allowed(ctx, revs...); err != nil {
		return 0, err
	}
	// This agent's git does not read the shared directory, so the objects stay in its own as well.
	return 0, p.bare.PublishKept(ctx, p.own, revs...)
}

// Sums implements gitdir.Packs.
func (p *packs) Sums(ctx context.Context, content, hashLen int) (gitdir.PackSums, error) {
	fd, err := unix.FcntlInt(uintptr(content), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return gitdir.PackSums{}, fmt.Errorf("duplicate the pack: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pack")
	defer f.Close()
	format := "sha1"
	if hashLen == 32 {
		format = "sha256"
	}
	idx, rev, err := p.bare.Runner.IndexPack(git.Charged(ctx, p.account), f, format, p.scratch)
	return gitdir.PackSums{Idx: idx, Rev: rev}, err
}

// usage stores what the agent has added to the objects, across restarts. A crash loses at most
// usageStep bytes of the count.
type usage struct {
	path  string
	mu    sync.Mutex
	saved int64
}

const usageStep = 1 << 20

func (u *usage) load() (int64, error) {
	b, err := os.ReadFile(u.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("usage of git objects: %w", err)
	}
	u.saved, err = strconv.ParseInt(cmp.Or(strings.TrimSpace(string(b)), "0"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("usage of git objects: %s: %w", u.path, err)
	}
	return u.saved, nil
}

func (u *usage) grow(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n-u.saved >= usageStep && replaceFile(u.path, strconv.FormatInt(n, 10)+"\n") == nil {
		u.saved = n // otherwise the next object tries again
	}
}

func (u *usage) save(n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n == u.saved {
		return nil
	}
	return replaceFile(u.path, strconv.FormatInt(n, 10)+"\n")
}
