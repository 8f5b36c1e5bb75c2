package filtered

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"polis/daemon/git"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/fusefs/policy"
)

// What is in the directory of a store beside its objects.
const (
	rulesFile    = "rules.json"
	stateFile    = "state.json"
	withheldFile = "withheld"
)

// maxState bounds those that are read at once, in bytes.
const maxState = 64 << 20

// state describes what is in a store.
type state struct {
	// Tips are objects whose whole history is in the store.
	Tips []string `json:"tips"`
	// Withheld is how many bytes of the file of that name are good.
	Withheld int64 `json:"withheld"`
	// Odd are tips whose history could not be read: it is not in the store.
	Odd []string `json:"odd,omitempty"`

	has map[string]bool // Tips and Odd
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err == nil && len(b) > maxState {
		err = git.ErrTooLarge
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// objectStore is one store that is worked on.
type objectStore struct {
	k   *Keeper
	dir string
	set *policy.Set
}

// open makes what is missing of a store.
func (k *Keeper) openStore(dir string, rules policy.Rules) (*objectStore, error) {
	set, err := policy.Compile(rules)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"", "objects", "objects/info", "objects/pack", filepath.Join("objects", AskedDir)} {
		if err := private.Within(filepath.Join(dir, d)); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, rulesFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		err = store.WriteJSON(path, rules)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return &objectStore{k: k, dir: dir, set: set}, nil
}

// load returns what is in the store. A state that cannot be read is rebuilt:
// what is there comes twice then.
func (s *objectStore) load() state {
	var st state
	err := readJSON(filepath.Join(s.dir, stateFile), &st)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.k.Log.Warn("what filtered objects there are is not known; all are looked for again", "op", "filter", "path", s.dir, "err", err)
	}
	if err != nil {
		st = state{}
	}
	st.has = map[string]bool{}
	for _, id := range slices.Concat(st.Tips, st.Odd) {
		st.has[id] = true
	}
	return st
}
