package filtered

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/host/private"
	"polis/daemon/rules/cone"
	"polis/internal/failpoint"
)

// An agent with a sparse checkout of its own (package cone) and rules that withhold files gets a file of patterns that
// has both: first the cone, then what is withheld of it. The store has such a file for each cone, and writes it again when
// more is withheld.

// conesDir is the directory, in that of a store, with the patterns of each cone alone.
const conesDir = "cones"

// everything is the first pattern of SparseFile. What follows are the withheld files.
const everything = "/*\n"

// SparseName is the file, below the directory of objects, that git reads as its info/sparse-checkout with a cone; nil: no
// cone.
func SparseName(c *cone.Cone) string {
	if c == nil {
		return SparseFile
	}
	return SparseFile + "-" + coneKey(c)
}

func coneKey(c *cone.Cone) string {
	sum := sha256.Sum256([]byte(c.Patterns()))
	return hex.EncodeToString(sum[:8])
}

// Patterns returns the lines by which git checks out none of the files that a store withholds; "" for the key of none.
func (k *Keeper) Patterns(key string) string {
	if key == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(k.Objects(key), SparseFile))
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(string(text), everything)
}

// ensureCone makes the patterns of a cone in a store.
func (k *Keeper) ensureCone(ctx context.Context, key string, c *cone.Cone) error {
	if c == nil {
		return nil
	}
	done, err := k.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s := &objectStore{k: k, dir: filepath.Join(k.Dir, key)}
	dir := filepath.Join(s.dir, conesDir)
	if err := private.Within(dir); err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, coneKey(c)), c.Patterns()); err != nil {
		return fmt.Errorf("write the patterns of a sparse checkout: %w", err)
	}
	failpoint.Hit("filter:cone")
	return s.refreshCones()
}

// refreshCones makes the files of patterns those of the cones and of what is withheld now.
func (s *objectStore) refreshCones() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, conesDir))
	if errors.Is(err, fs.ErrNotExist) || len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	withheld, err := os.ReadFile(filepath.Join(s.objects(), SparseFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		only, err := os.ReadFile(filepath.Join(s.dir, conesDir, e.Name()))
		if err != nil {
			return err
		}
		to, text := filepath.Join(s.objects(), SparseFile+"-"+e.Name()), string(only)+strings.TrimPrefix(string(withheld), everything)
		if now, err := os.ReadFile(to); err == nil && string(now) == text {
			continue
		}
		if err := replace(to, text); err != nil {
			return err
		}
	}
	return nil
}

// sweepCones removes the patterns of cones that no agent has.
func (k *Keeper) sweepCones(ctx context.Context, used []*cone.Cone) error {
	keep := map[string]bool{}
	for _, c := range used {
		if c != nil {
			keep[coneKey(c)] = true
		}
	}
	done, err := k.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := filepath.Glob(filepath.Join(k.Dir, "*", conesDir, "*"))
	for _, path := range all {
		name := filepath.Base(path)
		if keep[name] {
			continue
		}
		// The cone last: without it nothing finds the other.
		shown := filepath.Join(filepath.Dir(filepath.Dir(path)), "objects", SparseFile+"-"+name)
		for _, file := range []string{shown, path} {
			if rerr := os.Remove(file); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("remove the patterns of a sparse checkout: %w", rerr))
			}
		}
	}
	return err
}
