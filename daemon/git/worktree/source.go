package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"polis/daemon/api"
)

var (
	schemeRE = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	scpRE    = regexp.MustCompile(`^([A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9._-]*:[^:]`)
)

// source is the origin of a project: a directory on this machine or a URL.
type source struct {
	path  string // absolute, without symlinks; "" if it is a URL
	named string // path as it was given
	url   string
}

// systemDir reports that a directory is, or is part of, the operating system, or that it is
// shared by all users.
func systemDir(path string) bool {
	for _, keep := range []string{"/usr/src", "/usr/local/src"} {
		if path != keep && within(keep, path) {
			return false
		}
	}
	for _, dir := range []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"} {
		if within(dir, path) {
			return true
		}
	}
	switch path {
	case "/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/cache", "/var/lib", "/var/log", "/var/tmp":
		return true
	}
	return false
}

// closed explains why root may not look into a directory: only a file system of a user's own refuses it.
func closed(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: root may not look into it. A FUSE file system (sshfs, gocryptfs, rclone) lets only its user in, "+
			"unless it is mounted with -o allow_root (for others than root, /etc/fuse.conf has to have user_allow_other)", err)
	}
	return err
}

// parseSource parses the repository argument.
func parseSource(repo string) (source, error) {
	bad := func(format string, args ...any) (source, error) {
		return source{}, api.Errorf(api.CodeWorkspaceInvalid, "repository %q: "+format, append([]any{api.Shorten(repo, 200)}, args...)...).
			WithHint("give the path of a checkout, or a URL: https://..., ssh://..., git://..., file://... or user@host:path")
	}
	switch {
	case strings.ContainsAny(repo, "\x00\n\r"):
		return bad("contains a control character")
	case strings.HasPrefix(repo, "-"):
		return bad("begins with a dash")
	}
	if m := schemeRE.FindStringSubmatch(repo); m != nil {
		u, err := url.Parse(repo)
		if err != nil {
			return bad("is not a URL")
		}
		switch strings.ToLower(m[1]) {
		case "http", "https", "ssh", "git":
			if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
				return bad("has no usable host")
			}
		case "file":
			if u.Host != "" && u.Host != "localhost" {
				return bad("a file URL names no host")
			}
		default:
			return bad("polis does not fetch by %s", m[1])
		}
		return source{url: repo}, nil
	}
	if strings.Contains(repo, "::") {
		if _, err := os.Lstat(repo); err != nil {
			return bad("remote helpers are not used")
		}
	}
	if !filepath.IsAbs(repo) && scpRE.MatchString(repo) {
		return source{url: repo}, nil
	}
	if !filepath.IsAbs(repo) {
		return bad("is not an absolute path")
	}
	path, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return bad("%w", closed(err))
	}
	fi, err := os.Stat(path)
	if err != nil {
		return bad("%w", closed(err))
	}
	if !fi.IsDir() {
		return bad("is not a directory")
	}
	return source{path: path, named: repo}, nil
}
