package pullrequest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

const (
	toolTime  = 2 * time.Minute
	askTime   = 15 * time.Second
	maxOutput = 64 << 10
)

// Request is a pull request to open.
type Request struct {
	Into   Remote // where the pull request is opened
	From   Remote // where the branch is
	Branch string
	Target string
	Title  string
	Body   string
	Draft  bool
}

// Opened is a pull request that is there.
type Opened struct {
	URL string
	// Existed: it was there before.
	Existed bool
}

// Tool is a forge's own program, run as the person of Own.
type Tool struct {
	Own  *git.Own
	GID  uint32
	Name string // "gh" or "glab"
	path string
}

// FindTool returns the program that opens pull requests at r; nil if there is none. For a host of
// unknown kind it queries gh whether it knows the host.
func FindTool(ctx context.Context, own *git.Own, gid uint32, r *Remote) *Tool {
	look := func(name string) *Tool {
		for _, dir := range own.Path() {
			p := filepath.Join(dir, name)
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
				return &Tool{Own: own, GID: gid, Name: name, path: p}
			}
		}
		return nil
	}
	if r.Host == "" || r.Path == "" {
		return nil
	}
	switch r.Kind {
	case GitHub:
		return look("gh")
	case GitLab:
		return look("glab")
	case Unknown:
		if t := look("gh"); t != nil {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			if _, err := t.run(ctx, nil, "auth", "token", "--hostname", r.Host); err == nil {
				r.Kind = GitHub
				return t
			}
		}
	case Bitbucket, Gitea, Sourcehut, Azure:
	}
	return nil
}

// Open opens the pull request, or finds the one that is open.
func (t *Tool) Open(ctx context.Context, req Request) (Opened, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	args, stdin := t.arguments(req)
	out, err := t.run(ctx, strings.NewReader(stdin), args...)
	if u := lastURL(out.String()); u != "" {
		if err == nil {
			return Opened{URL: u}, nil
		}
		if strings.Contains(strings.ToLower(out.String()), "already exists") {
			return Opened{URL: u, Existed: true}, nil
		}
	}
	if err == nil {
		err = errors.New("it named no page")
	}
	return Opened{}, api.Errorf(api.CodePushFailed, "%s %s: %w: %s", t.Name, strings.Join(args[:2], " "), err, lastLine(out.String())).
		WithHint("the branch is pushed; is uid %d logged in? %s auth status", t.Own.UID, t.Name)
}

// arguments are what the program is called with. Every text an agent may have
// written stands behind an option or on standard input.
func (t *Tool) arguments(req Request) (args []string, stdin string) {
	if t.Name == "glab" {
		args = []string{"mr", "create", "--repo=" + "https://" + req.Into.Repository(), "--source-branch=" + req.Branch, "--target-branch=" + req.Target,
			"--title=" + req.Title, "--description=" + req.Body, "--yes"}
		if req.From.Path != req.Into.Path {
			args = append(args, "--head="+req.From.Path)
		}
	} else {
		head := req.Branch
		if req.From.Path != req.Into.Path {
			head = req.From.Owner() + ":" + head
		}
		args = []string{"pr", "create", "--repo=" + req.Into.Repository(), "--head=" + head, "--base=" + req.Target, "--title=" + req.Title, "--body-file=-"}
		stdin = req.Body
	}
	if req.Draft {
		args = append(args, "--draft")
	}
	return args, stdin
}

// run runs the program in the root directory, where no repository can configure
// it, and returns what it printed.
func (t *Tool) run(ctx context.Context, stdin *strings.Reader, args ...string) (*bytes.Buffer, error) {
	out := &bytes.Buffer{}
	cred, err := git.Credential(t.Own.UID, t.GID)
	if err != nil {
		return out, err
	}
	cmd := exec.CommandContext(ctx, t.path, args...) //nolint:forbidigo // the forge's own program, as the person it belongs to
	cmd.Dir = "/"
	cmd.Env = append(t.Own.Environ(), "GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "GH_SPINNER_DISABLED=1", "NO_PROMPT=1", "NO_COLOR=1", "BROWSER=/bin/false", "GH_BROWSER=/bin/false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: cred}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if stdin != nil {
		cmd.Stdin = stdin
	}
	limited := &limit{buf: out, left: maxOutput}
	cmd.Stdout, cmd.Stderr = limited, limited
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
		return out, err
	}
	return out, nil
}

// limit keeps the first bytes and swallows the rest.
type limit struct {
	buf  *bytes.Buffer
	left int
}

func (l *limit) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.buf.Write(p[:n])
	l.left -= n
	return len(p), nil
}

var pages = regexp.MustCompile(`https?://[^\s"'<>]+/(?:pull|pulls|merge_requests)/[0-9]+`)

func lastURL(out string) string {
	all := pages.FindAllString(out, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(plain(out)), "\n")
	return api.Shorten(lines[len(lines)-1], 500)
}
