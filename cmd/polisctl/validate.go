package main

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// Bounds of what is sent. The daemon has its own; these say the same sooner.
const (
	maxText   = 4096      // PATH_MAX
	maxPrompt = 128 << 10 // MAX_ARG_STRLEN: a prompt becomes one argument of a command
	maxRules  = 1024
	minMemory = 4       // MB
	maxMemory = 1 << 24 // MB: 16 TiB
	maxLines  = 100_000
)

// checkText refuses text that no field can hold.
func checkText(field, value string, max int) error {
	switch {
	case value == "":
		return usagef("%s is empty: it must have 1 to %d bytes", field, max)
	case len(value) > max:
		return usagef("%s %q is %d bytes long: at most %d are allowed", field, clean(api.Shorten(value, 40)), len(value), max)
	case strings.ContainsRune(value, 0):
		return usagef("%s %q has a NUL byte in it", field, clean(api.Shorten(value, 80)))
	}
	return nil
}

// checkWord refuses text that is not one line, or looks like an option.
func checkWord(field, value string, max int) error {
	if err := checkText(field, value, max); err != nil {
		return err
	}
	switch {
	case clean(value) != value:
		return usagef("%s %q has characters that cannot be printed", field, clean(api.Shorten(value, 80)))
	case strings.HasPrefix(value, "-"):
		return usagef("%s %q starts with '-'", field, api.Shorten(value, 80))
	}
	return nil
}

// checkAgents checks the names of agents that should exist. No agent has a
// name that is not valid, so such a name is that of no agent.
func checkAgents(names ...string) error {
	for _, n := range names {
		if err := api.CheckName(n); err != nil {
			return api.Errorf(api.CodeAgentNotFound, "there is no agent %q, and none can have that name", clean(api.Shorten(n, 64))).
				WithHint("polisctl agents list")
		}
	}
	return nil
}

// checkRules checks the globs of one flag.
func checkRules(flag string, globs []string) error {
	if len(globs) > maxRules {
		return usagef("%s is given %d times: at most %d rules are allowed", flag, len(globs), maxRules)
	}
	for _, g := range globs {
		if err := checkText(flag+" rule", g, maxText); err != nil {
			return err
		}
		if clean(g) != g {
			return usagef("%s rule %q has characters that cannot be printed", flag, clean(g))
		}
		for part := range strings.SplitSeq(g, "/") {
			if part == ".." {
				return usagef("%s rule %q leaves the repository: rules are paths of the repository, without '..'", flag, g)
			}
		}
	}
	return nil
}

// parsePort reads a port number.
func parsePort(field, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > math.MaxUint16 || strconv.Itoa(n) != value {
		return 0, usagef("%s %q is not valid: a whole number from 1 to 65535", field, clean(api.Shorten(value, 40)))
	}
	return n, nil
}

// parseMemory reads a size in MB; "512", "512MB" and "2GB" (or M, MiB, G, GiB)
// are understood. The empty text is 0, the daemon's default.
func parseMemory(value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	bad := func() error {
		return usagef("memory %q is not valid: a whole number of MB from %d to %d, such as 512 or 2GB", clean(api.Shorten(value, 40)), minMemory, maxMemory)
	}
	digits := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	factor := 1
	switch strings.ToUpper(value[len(digits):]) {
	case "", "M", "MB", "MIB":
	case "G", "GB", "GIB":
		factor = 1024
	default:
		return 0, bad()
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxMemory/factor || n*factor < minMemory || strings.HasPrefix(digits, "+") {
		return 0, bad()
	}
	return n * factor, nil
}

// checkDuration checks a duration flag.
func checkDuration(field string, d, min, max time.Duration) error {
	if d < min || d > max {
		return usagef("%s %s is not valid: a duration from %s to %s", field, d, min, max)
	}
	return nil
}

// repository makes the argument of --repo independent of the current
// directory. A URL stays as it is; anything else is a path.
func repository(value string) (string, error) {
	if err := checkText("repo", value, maxText); err != nil {
		return "", err
	}
	if strings.HasPrefix(value, "-") {
		return "", usagef("repo %q starts with '-'", clean(value)).WithHint("write ./%s for a directory of that name", clean(value))
	}
	if strings.Contains(value, "::") && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, ".") {
		return "", usagef("repo %q names a git remote helper: only paths and http, https, ssh, git and file URLs are allowed", clean(value))
	}
	if scheme, _, ok := strings.Cut(value, "://"); ok && !strings.ContainsAny(scheme, "/.") {
		u, err := url.Parse(value)
		if err != nil {
			return "", usagef("repo is not a valid URL") // the error repeats the URL, which may hold a password
		}
		switch u.Scheme {
		case "http", "https", "ssh", "git", "file":
			return value, nil
		}
		return "", usagef("repo has scheme %q: only http, https, ssh, git and file URLs are allowed", clean(u.Scheme))
	}
	if isSCP(value) {
		return value, nil
	}
	return absolute("repo", value)
}

// isSCP recognises [user@]host:path, as git does: a colon before any slash,
// and no local file of that name.
func isSCP(value string) bool {
	colon, slash := strings.IndexByte(value, ':'), strings.IndexByte(value, '/')
	if colon <= 0 || slash >= 0 && slash < colon {
		return false
	}
	_, err := os.Lstat(value)
	return err != nil
}

func absolute(field, path string) (string, error) {
	if err := checkText(field, path, maxText); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "current directory: %w", err)
	}
	return abs, nil
}
