package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/fuseuring"
)

// The test program runs itself for what needs another process or another user.
func TestMain(m *testing.M) {
	if verb := os.Getenv("FUSEFS_HELPER"); verb != "" {
		if err := help(verb, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(overRings(m.Run))
}

// overRings runs f with requests from rings, where the kernel has them.
func overRings(f func() int) int {
	before, err := fuseuring.SetEnabled(true)
	if err == nil {
		defer func() { _, _ = fuseuring.SetEnabled(before) }() //nolint:errcheck // it could be turned on
	}
	return f()
}

// helper is a command that does one thing in another process, killed at the
// end of the test at the latest.
func helper(t testing.TB, verb string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append(os.Environ(), "FUSEFS_HELPER="+verb, "GORACE=atexit_sleep_ms=0")
	c.Stderr = os.Stderr
	return c
}

// as runs a helper with the rights of nobody.
func as(t testing.TB, uid, gid uint32, verb string, args ...string) error {
	t.Helper()
	c := helper(t, verb, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	c.Dir = "/"
	return c.Run()
}

func help(verb string, args []string) error {
	switch verb {
	case "worker":
		return work(args)
	case "bounded":
		return bounded(args[0], args[1])
	case "crowd":
		return crowd(args)
	case "swarm":
		return swarm(args[0])
	case "latency":
		return latency(args[0])
	case "opens":
		return opens(args[0], args[1])
	case "panics":
		return panics(args[0], args[1])
	case "notifies itself":
		return notifiesItself(args[0], args[1], args[2] == "rings")
	case "setxattr":
		return unix.Setxattr(args[0], args[1], nil, 0)
	case "soak":
		return soak(args)
	case "roam":
		return roam(args)
	case "append":
		if os.Getenv("FUSEFS_CATCH") != "" { // so that they interrupt
			signal.Notify(make(chan os.Signal, 9), syscall.SIGURG, syscall.SIGWINCH, syscall.SIGCHLD, syscall.SIGUSR1)
		}
		for _, name := range args {
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			if _, err := f.WriteString("more"); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
		return nil
	case "read":
		_, err := os.ReadFile(args[0])
		return err
	case "truncate":
		for _, name := range args {
			if err := os.Truncate(name, 0); err != nil {
				return err
			}
		}
		return nil
	case "overwrite":
		for _, name := range args {
			if err := openClose(name, unix.O_WRONLY|unix.O_TRUNC, 0); err != nil {
				return err
			}
		}
		return nil
	case "chmod":
		mode, err := strconv.ParseUint(args[1], 8, 32)
		if err != nil {
			return err
		}
		return unix.Chmod(args[0], uint32(mode))
	case "make": // one of everything below a directory, with umask 027
		unix.Umask(0o027)
		d := args[0] + "/"
		if err := openClose(d+"file", unix.O_CREAT|unix.O_WRONLY, 0o666); err != nil {
			return err
		}
		if err := openClose(d+"strict", unix.O_CREAT|unix.O_RDWR, 0o4400); err != nil {
			return err
		}
		if err := os.Mkdir(d+"dir", 0o777); err != nil {
			return err
		}
		if err := unix.Mkfifo(d+"fifo", 0o666); err != nil {
			return err
		}
		if err := bindAt(d + "sock"); err != nil {
			return err
		}
		fd, err := unix.Open(args[0], unix.O_TMPFILE|unix.O_RDWR, 0o640)
		if err != nil {
			return err
		}
		if err := unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, d+"linked", unix.AT_SYMLINK_FOLLOW); err != nil {
			return err
		}
		return os.Symlink("file", d+"link")
	case "lock": // exit 1 if another process holds the lock
		f, err := os.OpenFile(args[1], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if args[0] == "flock" {
			return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	return fmt.Errorf("no such verb: %s", verb)
}
