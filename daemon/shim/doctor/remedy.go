package doctor

import (
	"os"
	"os/exec"
	"path/filepath"

	"polis/daemon/api"
)

// fault is what a check found to be wrong. It is a check once it has a remedy: one command that a person can paste, or the
// reason why there is none.
type fault api.Check

func bad(name string, state api.CheckState, found, cost, fix string) fault {
	return fault{Name: name, State: state, Found: found, Cost: cost, Fix: fix}
}

// by adds the command that mends it.
func (f fault) by(command string) api.Check {
	f.Command = command
	return api.Check(f)
}

// without adds why no command mends it.
func (f fault) without(why string) api.Check {
	f.NoCommand = why
	return api.Check(f)
}

// asRoot is the remedy if the check lacked the rights of root; with them, no command gives it what it lacks.
func (f fault) asRoot() api.Check {
	if os.Geteuid() != 0 {
		return f.by("sudo polisctl doctor")
	}
	return f.without("it runs as root already: the error names what the kernel, or the container, refuses")
}

// The reasons why there is no command.
const (
	ofTheKernel    = "which kernel is started is decided by the machine's boot loader and packages, or by its container's host"
	ofTheContainer = "a program cannot give itself what its container, or its unit, keeps from it"
	notKnown       = "what is in the way is not known, beside the error"
)

// booted reports whether systemd is the service manager (sd_booted(3)).
func booted() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// restarted is a command, and the restart of polisd after it if systemd does that.
func restarted(command string) string {
	if booted() {
		return command + " && sudo systemctl restart polisd"
	}
	return command
}

// reloaded is restarted for what a reload brings. Without systemd, polisctl config set prints how.
func reloaded(command string) string {
	if booted() {
		return command + " && sudo systemctl reload polisd"
	}
	return command
}

// configured is the command that sets a key of the configuration that counts after a restart.
func configured(key, value string) string {
	return restarted("sudo polisctl config set " + key + " " + api.PastedWord(value))
}

// installed adds the command that installs a package of the same name everywhere.
func (f fault) installed(name string) api.Check {
	for _, m := range [][2]string{{"apt-get", "apt-get install -y"}, {"dnf", "dnf install -y"}, {"zypper", "zypper install -y"}, {"pacman", "pacman -S --noconfirm"}, {"apk", "apk add"}} {
		if path, err := exec.LookPath(m[0]); err == nil && filepath.IsAbs(path) {
			return f.by("sudo " + m[1] + " " + name)
		}
	}
	return f.without("no package manager that polis knows is in the PATH")
}
