package filtered

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/git"
	"polis/daemon/host/private"
	"polis/fusefs/fdtree"
	"polis/fusefs/policy"
	"polis/internal/failpoint"
)

// format changes when stores that were built before have too much or too little.
const format = 2

// unfinished begins the names of what is being made, which a crash leaves.
const unfinished = ".new-"

// Keeper has the stores of one workspace. Make it with New.
type Keeper struct {
	// Repo is the shared repository.
	Repo git.Repo
	// Remotes is the repository with the refs of what was fetched, below
	// refs/polis/remotes; its objects are in Repo. The zero Repo has none.
	Remotes git.Repo
	// Dir holds one directory for each store. It is made.
	Dir string
	Log *slog.Logger

	turn chan struct{}
}

// New returns a Keeper of the stores in dir.
func New(repo, remotes git.Repo, dir string, log *slog.Logger) *Keeper {
	return &Keeper{Repo: repo, Remotes: remotes, Dir: dir, Log: log, turn: make(chan struct{}, 1)}
}

// Key names the store of a set of rules.
func Key(rules policy.Rules) (string, error) {
	b, err := json.Marshal(struct {
		Format int
		Rules  policy.Rules
	}{format, rules})
	if err != nil {
		return "", fmt.Errorf("filtered objects: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// Objects is the directory of the objects of a store, for git.
func (k *Keeper) Objects(key string) string { return filepath.Join(k.Dir, key, "objects") }

// KeyOf is the key of the store with that directory of objects; "" if it is none of this Keeper's.
func (k *Keeper) KeyOf(objects string) string {
	key, ok := strings.CutPrefix(filepath.Dir(objects), k.Dir+"/")
	if !ok || strings.Contains(key, "/") || filepath.Base(objects) != "objects" {
		return ""
	}
	return key
}

// Ensure makes the store for rules, or brings it up to what the refs lead to
// now, and returns its key.
func (k *Keeper) Ensure(ctx context.Context, rules policy.Rules) (string, error) {
	key, err := Key(rules)
	if err != nil {
		return "", err
	}
	done, err := k.enter(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if err := k.open(); err != nil {
		return "", err
	}
	if _, err := os.Lstat(filepath.Join(k.Dir, key)); err == nil {
		if err := k.update(ctx, filepath.Join(k.Dir, key), rules); err != nil {
			return "", fmt.Errorf("filtered objects: %w", err)
		}
		return key, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("filtered objects: %w", err)
	}
	tmp, err := os.MkdirTemp(k.Dir, unfinished)
	if err != nil {
		return "", fmt.Errorf("filtered objects: %w", err)
	}
	if err = k.update(ctx, tmp, rules); err == nil {
		failpoint.Hit("filter:built")
		err = os.Rename(tmp, filepath.Join(k.Dir, key))
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("filtered objects: %w", err), fdtree.Cleanup(tmp))
	}
	return key, nil
}

// updateTime bounds Update.
const updateTime = 2 * time.Minute

// Update adds what the refs lead to now and a store lacks.
func (k *Keeper) Update(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	done, err := k.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	var rules policy.Rules
	dir := filepath.Join(k.Dir, key)
	if err = readJSON(filepath.Join(dir, rulesFile), &rules); err == nil {
		err = k.update(ctx, dir, rules)
	}
	if err != nil {
		return fmt.Errorf("filtered objects: %w", err)
	}
	return nil
}

func (k *Keeper) update(ctx context.Context, dir string, rules policy.Rules) error {
	s, err := k.openStore(dir, rules)
	if err != nil {
		return err
	}
	return s.update(ctx)
}

// Present returns those of ids that are in a store.
func (k *Keeper) Present(ctx context.Context, key string, ids []string) (map[string]bool, error) {
	r := git.Repo{Runner: k.Repo.Runner, Dir: k.Repo.Dir, Objects: k.Objects(key)}
	there, err := r.Present(ctx, ids)
	out := map[string]bool{}
	for _, id := range there {
		out[id] = true
	}
	return out, err
}

// Sweep removes the stores that are not among used, and what a crash left.
func (k *Keeper) Sweep(ctx context.Context, used []string) error {
	done, err := k.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	entries, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("filtered objects: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !slices.Contains(used, e.Name()) {
			errs = append(errs, fdtree.RemoveAll(ctx, filepath.Join(k.Dir, e.Name())))
			k.Log.Info("filtered objects that nobody uses are removed", "op", "filter", "path", filepath.Join(k.Dir, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// enter waits for the caller's turn.
func (k *Keeper) enter(ctx context.Context) (func(), error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("filtered objects: wait for another operation on them: %w", context.Cause(ctx))
	}
}

func (k *Keeper) open() error {
	if err := private.Within(k.Dir); err != nil {
		return fmt.Errorf("filtered objects: %w", err)
	}
	return nil
}
