package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/host/cage"
)

// start starts cmd in a cage, unless the command's fields lift it.
func (c *Cmd) start(ctx context.Context, cmd *exec.Cmd, umask *int) error {
	if c.Own != nil || c.Remote {
		return cage.StartUnder(umask, cmd.Start)
	}
	switch {
	case c.Limits != nil:
	case content[c.verb()]:
		c.Limits = &contentLimits
	case history[c.verb()]:
		c.Limits = &historyLimits
	}
	box := cage.Cage{Write: c.writes(), Limits: c.Limits, Umask: umask}
	if c.Children {
		again, err := execPath(ctx, cmd)
		if err != nil {
			return err
		}
		box.Programs = []string{filepath.Join(again, "git")}
	}
	if c.Under != nil {
		uid := uint32(os.Geteuid())
		if cmd.SysProcAttr != nil && cmd.SysProcAttr.Credential != nil {
			uid = cmd.SysProcAttr.Credential.Uid
		}
		enter, done, err := c.Under.prepare(ctx, uid)
		if err != nil {
			return err
		}
		defer done()
		box.Enter = enter
	}
	return box.Start(cmd)
}

// content lists the commands whose memory use grows with the content of files, trees and the
// index, which agents write. The merge of two files of 12 MB with one letter per line takes 1.6
// GB. An index of 20 MB can name paths that take more.
var content = map[string]bool{
	"add": true, "diff": true, "diff-files": true, "diff-tree": true, "log": true, "ls-files": true, "ls-tree": true, "merge": true,
	"merge-tree": true, "mktree": true, "read-tree": true, "show": true, "status": true, "update-index": true, "write-tree": true,
}

// contentLimits bound each of these commands. It then fails with git's own "Out of memory", before
// the kernel kills polisd.
var contentLimits = cage.Limits{Data: 1 << 30, CPU: 10 * time.Minute}

// history lists the commands whose memory use grows with the number of objects, including those of
// the user's own history.
var history = map[string]bool{"fast-import": true, "pack-objects": true, "rev-list": true}

// historyLimits bound each of these commands. Ten million objects fit. Files that git maps are not
// counted.
var historyLimits = cage.Limits{Data: 4 << 30}

// outOfMemory returns git's message if the command reached its memory limit, or "".
func (c *Cmd) outOfMemory(stderr string) string {
	if c.Limits == nil || c.Limits.Data == 0 || !strings.Contains(strings.ToLower(stderr), "out of memory") {
		return ""
	}
	return fmt.Sprintf("\nfatal: out of memory: over what agents wrote git may allocate %d MB, and a file, a tree or the index there needs more", c.Limits.Data>>20)
}

// execPath returns the directory of git's own programs (git(1), --exec-path). It can differ from
// the directory of the started file: Debian has two.
func execPath(ctx context.Context, git *exec.Cmd) (string, error) {
	ask := exec.CommandContext(ctx, git.Path, "--exec-path")
	ask.Dir, ask.Env, ask.SysProcAttr = "/", []string{"LC_ALL=C"}, git.SysProcAttr
	var out, text bytes.Buffer
	ask.Stdout, ask.Stderr = &out, &text
	err := (&cage.Cage{}).Start(ask)
	if err == nil {
		err = ask.Wait()
	}
	dir := strings.TrimSuffix(out.String(), "\n")
	if err == nil && !filepath.IsAbs(dir) {
		err = fmt.Errorf("%q is no directory", dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the programs of git: %w %s", err, strings.TrimSpace(text.String()))
	}
	return dir, nil
}

// writes returns the directories that the command may write: the repository, the directories of
// its index and its objects, and those that the caller names.
func (c *Cmd) writes() []string {
	dirs := append([]string{}, c.Write...)
	if c.GitDir != "" {
		dirs = append(dirs, c.GitDir)
	}
	if c.CommonDir != "" {
		dirs = append(dirs, c.CommonDir)
	} else if c.GitDir != "" {
		dirs = append(dirs, elsewhere(c.GitDir)...)
	}
	if c.Index != "" {
		dirs = append(dirs, filepath.Dir(c.Index))
	}
	if c.Objects != "" {
		dirs = append(dirs, c.Objects)
	}
	for _, v := range c.Env {
		if dir, ok := strings.CutPrefix(v, "GIT_OBJECT_DIRECTORY="); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// maxPath is the longest name of a directory that the kernel accepts (PATH_MAX).
const maxPath = 4096

// elsewhere returns the parts of a repository that are outside its directory: those of a linked
// worktree (gitrepository-layout(5), commondir) and what the tool "repo" keeps behind symbolic
// links. The caller must not pass a directory that an agent writes: it gives those with their
// CommonDir.
func elsewhere(gitDir string) []string {
	var dirs []string
	if text, err := readShort(filepath.Join(gitDir, "commondir")); err == nil {
		common := strings.TrimSpace(text)
		if !filepath.IsAbs(common) {
			common = filepath.Join(gitDir, common)
		}
		dirs = append(dirs, common)
		gitDir = common
	}
	for _, name := range []string{"objects", "refs", "logs"} {
		path := filepath.Join(gitDir, name)
		fi, err := os.Lstat(path)
		if err != nil || fi.Mode()&os.ModeSymlink == 0 {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// readShort reads a small regular file. Its owner can exchange it at any time: a pipe blocks nothing.
func readShort(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxPath {
		return "", &os.PathError{Op: "read", Path: path, Err: os.ErrInvalid}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPath))
	return string(b), err
}
