package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/cgroup/sandbox"
	"polis/daemon/api/wire"
	"polis/daemon/host/walk"
)

// sources are the open files that a sandbox is made of. Of a source given by its path, the sandbox would mount what
// the path leads root to at that moment.
type sources struct {
	mounts        []sandbox.Mount
	home, scratch *os.File
	open          []*os.File
}

func (o *sources) close() {
	for _, f := range o.open {
		f.Close()
	}
}

func (o *sources) add(m sandbox.Mount, f *os.File, err error) error {
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Dest, err)
	}
	m.Open = f
	o.mounts, o.open = append(o.mounts, m), append(o.open, f)
	return nil
}

// openSources opens the sources of an agent's sandbox. The view is mounted at the path of the worktree and at that of
// the project, so that every absolute path that an agent knows refers to its own copy.
func (s *Shim) openSources() (_ *sources, err error) {
	sp := s.Spec
	o := &sources{}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if err := s.openConfigured(o); err != nil {
		return nil, err
	}
	if sp.Git {
		o.mounts = append(o.mounts, sandbox.Mount{Source: gitMount(sp), Dest: sp.BareRepo}) // in a directory of the shim
		objects := cmp.Or(sp.Filtered, filepath.Join(sp.BareRepo, "objects"))
		dir, err := s.openOwners(objects)
		if err := o.add(sandbox.Mount{Source: objects, Dest: publishedDir(sp), ReadOnly: true}, dir, err); err != nil {
			return nil, err
		}
		if names := s.askedNames(); names != "" {
			dir, err := s.openOwners(names)
			if err := o.add(sandbox.Mount{Source: names, Dest: askedDir(sp), ReadOnly: true}, dir, err); err != nil {
				return nil, err
			}
		}
	}
	view, err := openDir(s.at(sp.Mountpoint))
	if err != nil {
		return nil, err
	}
	o.open = append(o.open, view)
	if sp.Git {
		o.mounts = append(o.mounts, sandbox.Mount{Source: sp.Mountpoint, Dest: sp.Mountpoint, Open: view})
	}
	o.mounts = append(o.mounts, sandbox.Mount{Source: sp.Mountpoint, Dest: sp.ProjectPath, Open: view})
	return o, s.openHomes(o, sp.Policy.Temp)
}

// openConfigured opens the sources that the administrator configured, and the files of the agent's home.
func (s *Shim) openConfigured(o *sources) error {
	sp := s.Spec
	for _, m := range sp.Mounts {
		f, err := walk.Source(m.Source, uint32(sp.UID), uint32(sp.GID))
		if err := o.add(sandbox.Mount{Source: m.Source, Dest: m.Dest, ReadOnly: m.ReadOnly}, f, err); err != nil {
			return err
		}
	}
	return nil
}

// openHomes opens the home directory of the sandbox, and its scratch directory.
func (s *Shim) openHomes(o *sources, scratch bool) (err error) {
	if o.home, err = s.openOwners(s.Spec.HomeDir); err != nil {
		return err
	}
	o.open = append(o.open, o.home)
	if scratch && s.Spec.Scratch != "" {
		if o.scratch, err = s.openOwners(s.Spec.Scratch); err != nil {
			return err
		}
		o.open = append(o.open, o.scratch)
	}
	return nil
}

// openOwners opens a directory of the workspace that the sandbox sees: it is root's or that of the sandbox' user.
func (s *Shim) openOwners(path string) (*os.File, error) {
	f, err := s.openBelow(path)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openCheckSources opens the sources of the sandbox of a check or a setup command.
func (s *Shim) openCheckSources() (_ *sources, err error) {
	sp := s.Spec
	o := &sources{}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	tree, err := s.openOwners(sp.Tree)
	if err := o.add(sandbox.Mount{Source: sp.Tree, Dest: sp.ProjectPath}, tree, err); err != nil {
		return nil, err
	}
	if err := s.openConfigured(o); err != nil {
		return nil, err
	}
	for _, name := range sp.Check.Shared {
		path := filepath.Join(sp.ProjectPath, name)
		dir, err := sharedDir(s.project, name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed a moment ago
		}
		if err := o.add(sandbox.Mount{Source: path, Dest: path, ReadOnly: true}, dir, err); err != nil {
			return nil, err
		}
	}
	return o, s.openHomes(o, true)
}

// sharedDir opens a directory of the project, never through a link.
func sharedDir(project *os.File, name string) (*os.File, error) {
	fd, err := openAt(project, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(project.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// scratchOf is where the sandbox sees its scratch directory from, "" for a directory in memory.
func scratchOf(sp wire.Spec, o *sources) string {
	if o.scratch == nil {
		return ""
	}
	return sp.Scratch
}
