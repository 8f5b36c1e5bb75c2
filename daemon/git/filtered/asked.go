package filtered

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"polis/daemon/host/private"
	"polis/fusefs/policy"
)

// AskedDir is the directory, in that of the objects of a store, with a name for each file that the agent
// may ask for. It is a directory of loose objects (gitrepository-layout(5)) of which nobody can read one:
// they are empty and without permissions. So git knows that the object exists, and commits a tree with
// it, and requests it as a missing one when it needs the content.
const AskedDir = "asked"

// maxAsked bounds these names in one store. Objects beyond it are missing for git.
const maxAsked = 100_000

// name makes the names of those of held that may be asked for.
func (s *objectStore) name(held []file) error {
	dir := filepath.Join(s.objects(), AskedDir)
	n := 0
	for _, h := range held {
		if s.set.DecideThrough(h.path, false).Read != policy.Ask {
			continue
		}
		if n++; n > maxAsked {
			s.k.Log.Warn("files that may be asked for are left out: git of the agents cannot commit beside them", "op", "filter", "path", s.dir, "most", maxAsked)
			return nil
		}
		fan := filepath.Join(dir, h.id[:2])
		if err := private.Within(fan); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(fan, h.id[2:]), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Askable returns those of the missing objects (see Missing) that the agent may ask for, each with its
// path that an "ask" rule names.
func (k *Keeper) Askable(key string, missing map[string]string) (map[string]string, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	s, err := k.stored(key)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	err = eachWithheld(s.dir, func(f file) {
		if _, ok := missing[f.id]; ok && s.set.DecideThrough(f.path, false).Read == policy.Ask {
			out[f.id] = f.path
		}
	})
	return out, err
}

// stored is a store with the rules that it was made for.
func (k *Keeper) stored(key string) (*objectStore, error) {
	dir := filepath.Join(k.Dir, key)
	var rules policy.Rules
	if err := readJSON(filepath.Join(dir, rulesFile), &rules); err != nil {
		return nil, err
	}
	set, err := policy.Compile(rules)
	return &objectStore{k: k, dir: dir, set: set}, err
}
