package cage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrUnavailable reports that this kernel cannot confine a program.
var ErrUnavailable = errors.New("programs cannot be confined on this machine")

// Cage describes what one program may do. The zero Cage lets it read what its user
// may read, and neither write a file nor start a program.
type Cage struct {
	// Write are the directories, and files, below which the program may write,
	// create and remove. One that does not exist is passed over; one that is a
	// symbolic link is not followed.
	Write []string
	// Programs are what the program may start, besides itself; with none it can
	// start no process at all.
	Programs []string
	// Limits bound the program; nil for no bound.
	Limits *Limits
	// Enter, if not nil, runs first on the thread the program is started from:
	// it may put that thread into other namespaces.
	Enter func() error
	// Umask is the program's umask(2); nil for the caller's.
	Umask *int
}

// Start is cmd.Start with the program in the cage. It changes cmd.Path and
// cmd.Args if there are limits.
func (c *Cage) Start(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	run := append([]string{cmd.Path}, c.Programs...)
	if c.Limits != nil {
		if err := c.Limits.prepend(cmd); err != nil {
			return err
		}
		run = append(run, cmd.Path)
	}
	// The runtime asks the kernel once what pidfds can do; not from in there.
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		if err := self.Release(); err != nil {
			return fmt.Errorf("start %s: %w", cmd.Path, err)
		}
	}
	return onThread(func() error {
		if c.Enter != nil {
			if err := c.Enter(); err != nil {
				return err
			}
		}
		if len(c.Programs) > 0 {
			if err := c.noExec(); err != nil {
				return err
			}
		}
		if err := setUmask(c.Umask); err != nil {
			return err
		}
		if err := c.confine(run); err != nil {
			return err
		}
		return cmd.Start()
	})
}

// StartUnder starts a program that is in no cage, with an umask(2) of its own; nil for the caller's.
func StartUnder(umask *int, start func() error) error {
	if umask == nil {
		return start()
	}
	return onThread(func() error {
		if err := setUmask(umask); err != nil {
			return err
		}
		return start()
	})
}

// setUmask sets the umask of the calling thread alone, and of what it starts.
func setUmask(umask *int) error {
	if umask == nil {
		return nil
	}
	// The threads of a process share it until one has its own.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("umask of a program: %w", err)
	}
	unix.Umask(*umask)
	return nil
}

// confine puts the calling thread, and what it starts, into the cage for ever.
func (c *Cage) confine(run []string) error {
	rules, err := newRuleset()
	if err != nil {
		return err
	}
	defer rules.close()
	for _, path := range run {
		if err := rules.program(path); err != nil {
			return err
		}
	}
	for _, path := range append([]string{"/dev/null"}, c.Write...) {
		if err := rules.write(path); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: no_new_privs: %w", ErrUnavailable, err)
	}
	if err := rules.restrict(); err != nil {
		return err
	}
	return loadFilter(filter(len(c.Programs) > 0))
}

// onThread runs f on a thread of its own, which ends with it: what f did to the thread cannot be
// undone, and no other goroutine may get it. The first thread of the process represents the
// process in /proc, and is never used.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// While this goroutine holds the first thread, another one gets another.
			result <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		result <- f() // never unlocked: the thread ends with the goroutine
	}()
	return <-result
}

// noExec mounts what the program may write over itself, noexec and nosuid, in a
// mount namespace of the thread's own. Without root there is none: a daemon that is
// not root has no agents to guard itself against.
func (c *Cage) noExec() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("%w: unshare: %w", ErrUnavailable, err)
	}
	// Slave: an unmount on the host reaches the copy, nothing goes back.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("%w: make mounts slaves: %w", ErrUnavailable, err)
	}
	for _, path := range c.Write {
		if err := remountNoExec(path); err != nil {
			return fmt.Errorf("%w: mount %s noexec: %w", ErrUnavailable, path, err)
		}
	}
	return nil
}

// remountNoExec mounts what is at path on itself. The path is resolved once: if another user exchanges what is on the
// way, that user's program must not find there what was at another moment.
func remountNoExec(path string) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}
