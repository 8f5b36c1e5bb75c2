package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
)

// hostTrees are the directories of the host that a sandbox sees, read-only. A link on the host
// (/bin to usr/bin) is the same link inside.
var hostTrees = []string{"/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// prepareRootfs creates the directory that becomes the sandbox's root: links, generated files and
// the mount points that need more than a plain directory. libcontainer creates the others.
func (c *Config) prepareRootfs() error {
	if err := os.MkdirAll(filepath.Dir(c.RootfsDir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(c.RootfsDir, 0o755); err != nil {
		return err
	}
	dirs := []string{".polis", "dev", "home", "proc", "root", "run", "sys", "tmp", "var", "var/tmp"}
	for _, d := range dirs {
		if err := os.Mkdir(filepath.Join(c.RootfsDir, d), 0o755); err != nil {
			return err
		}
	}
	for _, t := range hostTrees {
		target, err := os.Readlink(t)
		if err != nil {
			continue // a directory, or missing: see hostBinds
		}
		if err := os.Symlink(target, filepath.Join(c.RootfsDir, t)); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"var/run": "/run", "var/lock": "/run"} {
		if err := os.Symlink(target, filepath.Join(c.RootfsDir, link)); err != nil {
			return err
		}
	}
	// Independent of the umask.
	for _, d := range append(dirs, ".") {
		if err := os.Chmod(filepath.Join(c.RootfsDir, d), 0o755); err != nil {
			return err
		}
	}
	return c.writeFiles()
}

// hostBinds lists what is bound of the host's trees. If one of the caller's mounts, or a hidden
// path, is below a tree, the tree is not bound as a whole, but entry by entry without the one
// that contains it: the neighbours of a project in /opt stay invisible to its agents. The same is
// done for /etc if it lacks one of the generated files, as the host's cannot be changed.
func (c *Config) hostBinds() ([]string, error) {
	apart := slices.Clone(c.Hide)
	for _, m := range c.Mounts {
		apart = append(apart, m.Dest)
	}
	apart = append(apart, c.Home)
	for _, f := range c.files() {
		if _, err := os.Lstat(f.dest); errors.Is(err, fs.ErrNotExist) {
			apart = append(apart, f.dest)
		}
	}
	var out []string
	for _, t := range hostTrees {
		fi, err := os.Lstat(t)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			continue
		}
		binds, err := c.bindsOf(t, apart)
		if err != nil {
			return nil, err
		}
		out = append(out, binds...)
	}
	return out, nil
}

// bindsOf lists the binds that show the tree dir without the paths apart.
func (c *Config) bindsOf(dir string, apart []string) ([]string, error) {
	leads := func(p string) bool {
		return slices.ContainsFunc(apart, func(a string) bool { return within(p, a) })
	}
	if !leads(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		switch {
		case p == "/usr/local":
			// Split only as deep as needed: a project in /usr/local/src must not hide
			// /usr/local/bin.
			binds, err := c.bindsOf(p, apart)
			if err != nil {
				return nil, err
			}
			out = append(out, binds...)
		case leads(p):
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return nil, err
			}
			if err := os.MkdirAll(filepath.Join(c.RootfsDir, dir), 0o755); err != nil {
				return nil, err
			}
			if err := os.Symlink(target, filepath.Join(c.RootfsDir, p)); err != nil {
				return nil, err
			}
		case e.IsDir(), e.Type().IsRegular():
			out = append(out, p)
		}
	}
	return out, nil
}

// stat describes the source.
func (m Mount) stat() (fs.FileInfo, error) {
	if m.Open != nil {
		return m.Open.Stat()
	}
	return os.Stat(m.Source)
}

// removeRootfs removes the root directory. It removes only what prepareRootfs and libcontainer
// put there (directories, links, empty files and the generated ones) and stops at anything else,
// and it does not start while anything is mounted there: a mistake must not reach the host's own
// files.
func removeRootfs(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return fmt.Errorf("%w: root directory %q", ErrConfig, dir)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %s: %s is still mounted", dir, mounts[len(mounts)-1].Mountpoint)
	}
	if err := removePoints(dir, filepath.Join(dir, ".polis")); err != nil {
		return fmt.Errorf("remove root directory: %w", err)
	}
	return nil
}

func removePoints(dir, generated string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if err := removePoints(p, generated); err != nil {
				return err
			}
			continue
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		link := e.Type()&fs.ModeSymlink != 0
		if !link && !(e.Type().IsRegular() && (fi.Size() == 0 || dir == generated)) {
			return fmt.Errorf("%s: not made by the sandbox", p)
		}
		if err := os.Remove(p); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
