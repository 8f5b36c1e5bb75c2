package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/cgroup/sandbox"
	"polis/daemon/api/wire"
	"polis/daemon/rules/hook"
)

// hookCommand runs the hook and fails closed: a status other than that which blocks does not stop
// the tool.
func hookCommand(program string) string {
	return wire.ToolPath + " hook " + program + " || { echo 'polis: this call could not be approved' >&2; exit 2; }"
}

// managedMounts makes the managed configuration of the agent's program, which nothing in the
// sandbox can change: the hook that has it ask before it uses a tool, and the text for its model.
// What the host's administrator has in these directories stays.
func (s *Shim) managedMounts() ([]sandbox.Mount, error) {
	var dirs []string
	program, ok := hook.ByName(s.Spec.Hook)
	if ok {
		dirs = append(dirs, managedDir(program.File))
	}
	said, asks := hook.ByName(s.Spec.SaidHook)
	var also []string
	if asks {
		also = append(also, said.SaidFile())
	}
	if filepath.IsAbs(s.Spec.Context) {
		also = append(also, s.Spec.Context)
	}
	for _, file := range also {
		if dir := managedDir(file); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	var mounts []sandbox.Mount
	for _, dir := range dirs {
		to := s.managedPath(dir)
		if err := copyManaged(dir, to); err != nil {
			return nil, err
		}
		mounts = append(mounts, sandbox.Mount{Source: to, Dest: dir, ReadOnly: true})
	}
	if ok {
		if err := s.writeHook(program); err != nil {
			return nil, err
		}
		s.hookEnv = program.Env
	}
	if asks {
		if err := s.writeSaidHook(said); err != nil {
			s.Log.Warn("texts of persons are the next task, not read at a call of a tool", "err", err)
		} else {
			s.said = true
		}
	}
	return mounts, s.writeContext(s.settings())
}

// managedDir is the directory below /etc that a file of managed configuration is in.
func managedDir(file string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(file, "/etc/"), "/")
	return filepath.Join("/etc", name)
}

// managedPath is where a path below /etc of the sandbox is on the host.
func (s *Shim) managedPath(path string) string {
	return filepath.Join(s.insideDir(), "managed", strings.TrimPrefix(path, "/etc/"))
}

func (s *Shim) writeHook(p hook.Program) error {
	return s.mergeManaged(p.File, func(host []byte) ([]byte, error) { return p.Config(hookCommand(p.Name), host) })
}

// writeSaidHook writes the configuration of the hook that asks what was said. It stops no tool.
func (s *Shim) writeSaidHook(p hook.Program) error {
	command := wire.ToolPath + " hook --said " + p.Name + " || true"
	return s.mergeManaged(p.SaidFile(), func(host []byte) ([]byte, error) { return p.SaidConfig(command, host) })
}

// mergeManaged writes a file of managed configuration over what is there: the copy of the host's, or what
// another hook has made of it.
func (s *Shim) mergeManaged(path string, config func(host []byte) ([]byte, error)) error {
	file := s.managedPath(path)
	host, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = replaceable(path)
	}
	if err != nil {
		return err
	}
	text, err := config(host)
	if err != nil {
		return &fs.PathError{Op: "merge", Path: path, Err: err}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return replaceFile(file, string(text))
}

// writeManagedContext writes the text for the agent's model after what the host has there.
func (s *Shim) writeManagedContext(text string) error {
	host, err := readManaged(s.Spec.Context)
	if err != nil {
		return err
	}
	file := s.managedPath(s.Spec.Context)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if host != "" {
		text = strings.TrimRight(host, "\n") + "\n\n" + text
	}
	return replaceFile(file, text)
}

func readManaged(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxManaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
