package git

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Own is the user on whose behalf a command runs.
type Own struct {
	UID  uint32
	Home string // absolute
	// Env is added last ("NAME=value"): tokens, and the socket of the user's ssh-agent.
	Env []string
}

// Environ returns the environment of a program that runs for the user. The program must not
// prompt: it has no terminal.
func (o *Own) Environ() []string {
	env := []string{
		"PATH=" + strings.Join(o.Path(), ":"),
		"LC_ALL=C.UTF-8", "HOME=" + o.Home, "USER=" + strconv.FormatUint(uint64(o.UID), 10),
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "SSH_ASKPASS_REQUIRE=force",
		"GIT_PAGER=cat", "PAGER=cat", "GIT_EDITOR=/bin/false",
	}
	// Programs reach keyrings over the user's bus, if the user has a session.
	if o.hasSession() {
		run := filepath.Join(runtimes, strconv.FormatUint(uint64(o.UID), 10))
		env = append(env, "XDG_RUNTIME_DIR="+run, "DBUS_SESSION_BUS_ADDRESS=unix:path="+run+"/bus")
	}
	return append(env, o.Env...)
}

// runtimes has a directory for each user who is logged in (pam_systemd(8)).
const runtimes = "/run/user"

// hasSession reports whether the user is logged in. It reads names only: the user can mount a file system over the
// directory, which never answers.
func (o *Own) hasSession() bool {
	f, err := os.Open(runtimes)
	if err != nil {
		return false // there are no logins here
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return err == nil && slices.Contains(names, strconv.FormatUint(uint64(o.UID), 10))
}

// Path returns the directories of the user's programs.
func (o *Own) Path() []string {
	path := strings.Split("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ":")
	return slices.Concat(path, []string{filepath.Join(o.Home, ".local/bin"), filepath.Join(o.Home, "bin"), "/home/linuxbrew/.linuxbrew/bin"})
}

// environ returns the settings that protect against the content of the repository. It leaves out
// those that would override the user's configuration and credentials.
func (o *Own) environ(c *Cmd) []string {
	guard := []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never", "gc.auto=0", "maintenance.auto=false", "push.recurseSubmodules=no", "push.gpgSign=false"}
	env := append(o.Environ(), "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_GRAFT_FILE=/dev/null", "GIT_OPTIONAL_LOCKS=0")
	return c.finish(env, append(guard, c.Config...))
}
