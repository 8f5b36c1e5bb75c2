package world

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// User is the name of the developer, UID the number, and that of the user's own group.
	User = "polis-ann"
	UID  = 4471
	// Admins is the number that the group polis has there. The user is a member.
	Admins = 4472

	// Identity is what git has for the user in the project, and Private what it has elsewhere.
	Identity = "Ann Work <ann@corp.example>"
	Private  = "Ann <ann@home.example>"

	// LFSContent is that of assets/model.bin, a file of Git LFS.
	LFSContent = "weights\n"
)

// World is a developer's machine below a directory.
type World struct {
	Dir     string // all of it
	Home    string // the user's
	Project string // as the user types it: below ~/src
	Real    string // the same without symbolic links
	Remote  string // bare: branches main, release/1.0 and feature/search, tags v1.0 and v1.1
	Theme   string // the remote of the submodule vendor/theme
	Uv      string // the directory of the interpreters, in the home
	Tools   string // programs for the user and for agents; sandboxes must see it
	LFS     string // what does the work of Git LFS: what "git-lfs version" prints
	Netns   string // file of the network namespace of the user's commands; "" for the caller's
}

//go:embed machine.sh
var machine string

// LFSStandIn is a program that does what "git-lfs clean" and "git-lfs smudge" do, with the objects where git-lfs has them: its
// own, and those beside the alternates of git's objects.
//
//go:embed lfs.sh
var LFSStandIn string

// Make makes the machine below dir, which must exist, be empty and be searchable by all. It needs root, git, ssh-keygen
// and setpriv. lfs is a git-lfs program; with "" it is the one of the PATH, or else the stand-in.
func Make(ctx context.Context, dir, lfs string) (*World, error) {
	w := &World{Dir: dir, Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "home/src/shop"), Real: filepath.Join(dir, "disk/src/shop"),
		Remote: filepath.Join(dir, "remotes/shop.git"), Theme: filepath.Join(dir, "remotes/theme.git"),
		Uv: filepath.Join(dir, "home/.local/share/uv"), Tools: filepath.Join(dir, "tools")}
	for _, own := range []string{"home", "disk", "remotes"} {
		if err := os.Mkdir(filepath.Join(dir, own), 0o700); err != nil {
			return nil, err
		}
		if err := os.Chown(filepath.Join(dir, own), UID, UID); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(w.Tools, 0o755); err != nil {
		return nil, err
	}
	if err := w.accounts(); err != nil {
		return nil, err
	}
	if err := w.lfs(lfs); err != nil {
		return nil, err
	}
	out, err := w.Command(ctx, w.Home, "bash", "-ec", machine).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the developer's machine: %w: %s", err, out)
	}
	version, err := w.Command(ctx, w.Home, "git", "lfs", "version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("git-lfs: %w: %s", err, version)
	}
	w.LFS = strings.TrimSpace(string(version))
	return w, nil
}

// accounts writes the files that Inside has commands see at /etc.
func (w *World) accounts() error {
	ids := map[string]string{
		"passwd": fmt.Sprintf("%s:*:%d:%d::%s:/bin/bash\n", User, UID, UID, w.Home),
		"group":  fmt.Sprintf("%s:*:%d:\npolis:*:%d:%s\n", User, UID, Admins, User),
	}
	for name, more := range ids {
		machines, err := os.ReadFile(filepath.Join("/etc", name))
		if err != nil {
			return err
		}
		var text strings.Builder
		for line := range strings.Lines(string(machines)) {
			if !strings.HasPrefix(line, "polis:") {
				text.WriteString(line)
			}
		}
		if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text.String()+more), 0o644); err != nil {
			return err
		}
		// For a umask of the test.
		if err := os.Chmod(filepath.Join(w.Dir, name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lfs makes git-lfs in Tools unless every user and every sandbox sees one.
func (w *World) lfs(program string) error {
	text := []byte(LFSStandIn)
	if program == "" {
		program, _ = exec.LookPath("git-lfs")
	}
	switch {
	case strings.HasPrefix(program, "/usr/"):
		return nil
	case program != "":
		var err error
		if text, err = os.ReadFile(program); err != nil {
			return err
		}
	}
	return w.Tool("git-lfs", string(text))
}

// Tool makes a program in Tools.
func (w *World) Tool(name, text string) error {
	file := filepath.Join(w.Tools, name)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		return err
	}
	return os.Chmod(file, 0o755)
}

// Inside is the beginning of a command: what follows sees the user and the groups of this machine. It needs root.
func (w *World) Inside() []string {
	const script = `mount --bind "$0/passwd" /etc/passwd; mount --bind "$0/group" /etc/group; exec "$@"`
	return []string{"unshare", "--mount", "sh", "-ec", script, w.Dir}
}

// Command is a command of the user in a directory, as from a login shell there: PWD is the directory as it is named.
func (w *World) Command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	var all []string
	if w.Netns != "" {
		all = []string{"nsenter", "--net=" + w.Netns}
	}
	all = append(all, w.Inside()...)
	uid := strconv.Itoa(UID)
	all = append(all, "setpriv", "--reuid="+uid, "--regid="+uid, "--groups="+strconv.Itoa(Admins), "--inh-caps=-all",
		"sh", "-ec", `umask 077; cd "$0"; exec "$@"`, dir, name)
	all = append(all, args...)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + w.Home, "USER=" + User, "LOGNAME=" + User, "LANG=C.UTF-8", "PATH=" + w.Tools + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	return cmd
}
