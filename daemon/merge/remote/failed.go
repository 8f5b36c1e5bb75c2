package remote

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// failed hides what an agent is not to see in a failure of git.
func failed(r Remote, verb string, err error, secrets ...string) error {
	text := err.Error()
	hint := "polis queries only the credential helpers of the project's owner; try it as that user: git fetch " + r.Name
	var exit *git.ExitError
	if errors.As(err, &exit) {
		text = exit.Line()
		if why, do := sshTrouble(exit.Stderr); why != "" {
			text, hint = why, do
		}
	}
	for _, s := range append(secrets, userinfo(r.full)...) {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return api.Errorf(api.CodeTimeout, "%s %s: %s", verb, r.Name, text)
	}
	return api.Errorf(api.CodeUnavailable, "%s %s: %s", verb, r.Name, text).WithHint("%s", hint)
}

// sshTrouble recognises ssh(1)'s errors where it would have to prompt, and returns the reason
// together with what to do; empty for other errors.
func sshTrouble(stderr string) (why, do string) {
	said := func(s string) bool { return strings.Contains(stderr, s) }
	switch {
	case said("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		return "the key of the host is not the one in known_hosts", "another machine may be in between; if the host has a new key, the project's owner removes the old one: ssh-keygen -R HOST (its ~/.ssh/known_hosts)"
	case said("Host key verification failed"):
		return "the host is not known", "the project's owner connects once (ssh HOST), compares the key and accepts it; it is then in ~/.ssh/known_hosts"
	case said("Permission denied (publickey"):
		return "the project's owner has no key for it that can be used without a passphrase",
			"it cannot be typed here: a key without a passphrase for this remote (a deploy key), named in ~/.ssh/config of the owner, works"
	}
	return "", ""
}

func userinfo(s string) []string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return nil
	}
	pw, _ := u.User.Password()
	return []string{pw, url.QueryEscape(pw), u.User.String()}
}
