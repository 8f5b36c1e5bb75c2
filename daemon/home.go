package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/agent"
	"polis/daemon/shim/wire"
)

// maxHomeFile bounds a file brought into an agent's home, in bytes.
const maxHomeFile = 4 << 20

func lookupUID(uid int) (*user.User, error) { return user.LookupId(strconv.Itoa(uid)) }

// seedHome copies what the base type declares from the owner's home into the
// agent's own, once (the project's owner is who set the agents up): the agent's changes stay its own, later starts keep them.
func seedHome(spec wire.Spec, a *agent.Agent) error {
	u, err := lookupUID(a.WS.Owner)
	if err != nil {
		return seedIdentity(spec, a) // a user without an account has no home
	}
	for _, rel := range a.Type.HomeFiles {
		if !filepath.IsLocal(rel) {
			return fmt.Errorf("home_files: %q leaves the home directory", rel)
		}
		if err := copyHomeFile(u.HomeDir, spec.HomeDir, rel, spec.UID, spec.GID); err != nil {
			return err
		}
	}
	return seedIdentity(spec, a)
}

// seedIdentity makes commits possible where neither the user nor the project
// says who they are by.
func seedIdentity(spec wire.Spec, a *agent.Agent) error {
	root, err := os.OpenRoot(spec.HomeDir)
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(".gitconfig", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	name, email := a.Identity.Name, a.Identity.Email
	if name == "" {
		name = a.Name()
	}
	if email == "" {
		email = a.Name() + "@polis.invalid"
	}
	_, err = fmt.Fprintf(f, "[user]\n\tname = %s\n\temail = %s\n", quoteConfig(name), quoteConfig(email))
	return errors.Join(err, f.Chown(spec.UID, spec.GID), f.Close())
}

// quoteConfig quotes a value as git-config(1) reads it.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\x00", "").Replace(s) + `"`
}

// copyHomeFile copies one regular file. Both sides are walked without
// following links: the directories belong to users.
func copyHomeFile(from, to, rel string, uid, gid int) error {
	src, err := openBeneath(from, rel)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bring %s into the sandbox: %w", rel, err)
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxHomeFile {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("bring %s into the sandbox: %w", rel, err)
	}
	defer root.Close()
	dir := ""
	for _, part := range strings.Split(filepath.Dir(rel), "/") {
		if part == "." {
			continue
		}
		dir = filepath.Join(dir, part)
		if err := root.Mkdir(dir, 0o700); err == nil {
			err = root.Lchown(dir, uid, gid)
			if err != nil {
				return fmt.Errorf("bring %s into the sandbox: %w", rel, err)
			}
		} else if !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("bring %s into the sandbox: %w", rel, err)
		}
	}
	dst, err := root.OpenFile(rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fi.Mode().Perm()&0o700|0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bring %s into the sandbox: %w", rel, err)
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxHomeFile))
	return errors.Join(err, dst.Chown(uid, gid), dst.Close())
}

func openBeneath(dir, rel string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Openat2(int(d.Fd()), rel, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

func pid() int { return os.Getpid() }
