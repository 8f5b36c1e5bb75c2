package worktree

import (
	"errors"
	"io/fs"
	"os"
)

// Files are the files of a worktree below the view that may cover it.
type Files struct {
	// Root has all of them. Own has those that are the agent's own: what is written through Root is
	// there. It can be Root.
	Root, Own *os.File
}

// Close closes the directories.
func (f Files) Close() error {
	err := f.Root.Close()
	if f.Own != f.Root {
		err = errors.Join(err, f.Own.Close())
	}
	return err
}

// Files opens the files of a worktree. The caller closes them.
func (w *Workspace) Files(agent string) (Files, error) {
	root, err := w.Lower(agent)
	if err != nil {
		return Files{}, err
	}
	base, err := w.baseOf(agent)
	if err == nil && base == "" {
		return Files{Root: root, Own: root}, nil
	}
	own, oerr := w.uncoveredDir(agent)
	if err = errors.Join(err, oerr); err != nil {
		return Files{}, errors.Join(err, root.Close())
	}
	return Files{Root: root, Own: own}, nil
}

// Index opens the index of an agent's git: fs.ErrNotExist if it has none. The agent can write it.
func (w *Workspace) Index(agent string) (*os.File, fs.FileInfo, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return openIndex(root)
}
