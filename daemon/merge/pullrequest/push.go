package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// pushTime bounds a push, and asking a remote what it has.
const pushTime = 10 * time.Minute

// Push is a commit on its way to a remote.
type Push struct {
	Repo git.Repo // has the commit; run as the person of Own
	Own  *git.Own
	URL  string
	// Config are settings of the person's checkout that reaching the remote may need.
	Config []string
	Commit string
	Branch string
	// Force replaces what the remote has, if it still is what was seen.
	Force bool
}

func (p Push) run(ctx context.Context, args ...string) (string, error) {
	// The URL is data even when it is an URL of a helper: git then asks the
	// user's own configuration, and ext:: is off.
	out, err := p.Repo.Do(ctx, git.Cmd{Args: args, Own: p.Own, Config: p.Config, Timeout: pushTime})
	return strings.TrimSpace(string(out)), err
}

// Do pushes. It reports whether the remote changed; otherwise the remote had the commit already.
func (p Push) Do(ctx context.Context) (changed bool, err error) {
	if err := git.CheckBranch(p.Branch); err != nil {
		return false, api.Errorf(api.CodeBadRequest, "%w", err)
	}
	full := git.Branch(p.Branch)
	have, err := p.run(ctx, "ls-remote", "--quiet", "--refs", "--", p.URL, full)
	if err != nil {
		return false, p.failed("ask the remote", err)
	}
	old, _, _ := strings.Cut(have, "\t")
	if old == p.Commit {
		return false, nil
	}
	args := []string{"push", "--porcelain", "--no-verify", "--no-follow-tags"}
	if p.Force {
		args = append(args, "--force-with-lease="+full+":"+old)
	}
	out, err := p.run(ctx, append(args, "--", p.URL, p.Commit+":"+full)...)
	if err != nil {
		if strings.Contains(out, "(fetch first)") || strings.Contains(out, "(non-fast-forward)") || strings.Contains(out, "(stale info)") {
			return false, api.Errorf(api.CodeRefConflict, "%s has commits on %s that the agent's branch does not have", p.where(), p.Branch).
				WithHint("look at them; --force replaces what is there now").With("remote_commit", old)
		}
		if line := rejected(out); line != "" {
			return false, api.Errorf(api.CodePushFailed, "%s does not take branch %s: %s", p.where(), p.Branch, line)
		}
		return false, p.failed("push", err)
	}
	return true, nil
}

// rejected finds why a remote refused a ref in the output of push --porcelain.
func rejected(out string) string {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "!\t"); ok {
			if _, why, ok := strings.Cut(rest, "\t"); ok {
				return strings.TrimSpace(why)
			}
		}
	}
	return ""
}

func (p Push) where() string { return Display(p.URL) }

func (p Push) failed(what string, err error) error {
	var exit *git.ExitError
	text := err.Error()
	if errors.As(err, &exit) {
		text = exit.Line()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return api.Errorf(api.CodeTimeout, "%s: %s did not answer in time", what, p.where())
	}
	text = hide(text, p.URL)
	return api.Errorf(api.CodePushFailed, "%s %s: %s", what, p.where(), text).
		WithHint("git ran as uid %d with home %s, which cannot type a password: does git ls-remote %s work for that user?", p.Own.UID, p.Own.Home, p.where())
}

// hide takes the password of a URL out of a text, which git itself only does
// in some messages.
func hide(text, raw string) string {
	text = strings.ReplaceAll(text, raw, Display(raw))
	secret := ""
	if u, err := url.Parse(raw); err != nil {
		_, user, _, _ := cutUser(raw)
		_, secret, _ = strings.Cut(user, ":")
	} else if u.User != nil {
		secret, _ = u.User.Password()
	}
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// RequestPull is the text of git-request-pull(1), for people who take pulls by mail.
func (p Push) RequestPull(ctx context.Context, base string) (string, error) {
	out, err := p.run(ctx, "request-pull", base, Display(p.URL), p.Commit+":"+git.Branch(p.Branch))
	if err != nil {
		return "", fmt.Errorf("git request-pull: %w", err)
	}
	return plain(out) + "\n", nil
}
