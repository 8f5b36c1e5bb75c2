package gitdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ownConfig is what the configuration of an agent has besides that of the repository: git gc packs the agent's
// own objects, and leaves refs, reflogs and worktrees, which agents share, and what nothing reaches any more. A push into
// the repository unpacks its objects.
const ownConfig = `[core]
	createObject = rename
[gc]
	auto = 0
	packRefs = false
	reflogExpire = never
	reflogExpireUnreachable = never
	pruneExpire = never
	worktreePruneExpire = never
	writeCommitGraph = false
	cruftPacks = false
[repack]
	updateServerInfo = false
[receive]
	unpackLimit = 1000000
[maintenance]
	auto = false
`

// maxConfig is the largest configuration that is copied, in bytes.
const maxConfig = 1 << 20

// Prepare makes an agent's private part of the git directory: a copy of the configuration with
// automatic maintenance disabled, empty hooks, an exclude file, and a directory for unpublished
// objects. more is what else the configuration has. Git finds the other objects in the directories published, paths as the agent sees them.
// The configuration makes git name objects by rename, which takes two requests less than link and
// unlink; the guard ensures that no object is replaced. Existing files are the agent's and stay
// unchanged. All files belong to uid:gid, and no other user can enter the directory. Its
// parent exists, and the agent must not be able to write that.
func Prepare(private, bare, more string, published []string, uid, gid int) error {
	if err := os.Mkdir(private, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("private git directory: %w", err)
	}
	root, err := os.OpenRoot(private)
	if err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	defer root.Close()
	// An earlier version made it for every user.
	if err := errors.Join(root.Lchown(".", uid, gid), root.Chmod(".", 0o700)); err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	for _, d := range []string{"hooks", "info", "refs", "logs", "logs/refs", "modules", "worktrees", "rr-cache", "objects", "objects/pack"} {
		err := root.Mkdir(d, 0o755)
		if err == nil {
			err = root.Lchown(d, uid, gid)
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("private git directory: %w", err)
		}
	}
	shared, err := os.OpenRoot(bare)
	if err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	defer shared.Close()
	config, err := readBounded(shared, "config")
	if err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	excluded, err := readBounded(shared, "info/exclude")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("private git directory: %w", err)
	}
	if !strings.HasSuffix(config, "\n") {
		config += "\n"
	}
	config += ownConfig + more
	for name, text := range map[string]string{"config": config, "info/exclude": excluded} {
		if err := seed(root, name, text, uid, gid); err != nil {
			return fmt.Errorf("private git directory: %w", err)
		}
	}
	if err := borrow(root, published); err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	return nil
}

// borrow adds directories in which git looks for objects. The agent cannot write the file that
// configures it, because the daemon's git reads it.
func borrow(root *os.Root, published []string) error {
	if err := root.Mkdir("objects/info", 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	const name = "objects/info/alternates"
	if err := root.Remove(name + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, dir := range published {
		if err == nil {
			_, err = io.WriteString(f, quoteAlternate(dir)+"\n")
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(name+".new", name)
}

// quoteAlternate quotes a directory for objects/info/alternates.
func quoteAlternate(dir string) string {
	if !strings.ContainsAny(dir, "\"\n") && !strings.HasPrefix(dir, "#") {
		return dir
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(dir) + `"`
}

func seed(root *os.Root, name, text string, uid, gid int) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Chown(uid, gid), f.Close())
}

// readBounded reads a regular file of the shared repository. The owner of the repository can
// exchange the file: the owner gets a copy, so nothing outside of the repository is read.
func readBounded(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is not a regular file: %w", name, fs.ErrInvalid))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(b), err
}
