package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"polis/daemon/host/cage"
)

const (
	maxStdout      = 64 << 20 // bytes of captured standard output
	maxStderr      = 64 << 10 // bytes of kept standard error
	defaultTimeout = 5 * time.Minute
	killDelay      = 5 * time.Second // how long pipes may stay open after the kill
)

// Runner runs git as one user.
type Runner struct {
	// UID and GID are the user and group that git runs as. A daemon that is not root can only run
	// git as its own user.
	UID, GID uint32
	// Git is the program; if empty, "git" from the fixed PATH.
	Git string
	// Log gets one Debug record per command; nil disables it.
	Log *slog.Logger
	// Timeout bounds a command without a Timeout of its own; 0 is 5 minutes.
	Timeout time.Duration
	// Umask is that of git, nil for the caller's.
	Umask *int
}

// Cmd is one command.
type Cmd struct {
	Args []string
	// GitDir, CommonDir, WorkTree and Index set the variables of these names. Without GitDir, git
	// discovers the repository from Dir, which must then be the user's own project and never a
	// directory that an agent writes.
	GitDir, CommonDir, WorkTree, Index string
	// Objects is the directory in which git looks for objects first, and to which it writes them;
	// if empty, the repository's own. Git reads Alternates as well.
	Objects    string
	Alternates []string
	// Dir is the working directory; if empty, GitDir, else /.
	Dir string
	// Env is appended last: identities and dates.
	Env []string
	// Config is appended to the settings of every command ("key=value").
	Config []string
	// Helpers enables the credential helpers of the configuration.
	Helpers bool
	// Global is a file that git reads in place of the user's configuration.
	Global string
	// Stdin may be nil. A Stdout that is not nil receives the output instead of Run's result.
	Stdin  io.Reader
	Stdout io.Writer
	// Files are passed as /proc/self/fd/3 and higher.
	Files []*os.File
	// Progress is called with the progress of a command that has --progress. If nil, the progress
	// is part of the error's text.
	Progress func(Step)
	// Timeout bounds the command; 0 is the Runner's.
	Timeout time.Duration
	// Limits bound the resources of the command; nil sets no bound but Timeout.
	Limits *cage.Limits
	// Write lists directories that the command writes besides the repository's own, such as the
	// working tree of a checkout.
	Write []string
	// Children allows the command to start git for parts of its work.
	Children bool
	// Remote lifts the cage for a command that reaches a remote: git starts transports, ssh and
	// credential helpers. Set it only in a repository whose configuration no agent writes, and
	// never with a WorkTree.
	Remote bool
	// Home, if not empty, has git read the configuration of the user with this home, and that of the system,
	// as data: the command is caged all the same. Set it only for commands that print what is configured.
	Home string
	// Own, if not nil, lifts the cage and runs git as the user, with the user's home,
	// configuration and credentials. Set it only for what the user requested, and with no argument
	// that an agent has written.
	Own *Own
	// Under, if not nil, gives the command a mount namespace in which a mounted view is absent.
	Under *Under
}

// Credential returns the credential of a process of uid and gid, or nil if the daemon runs as that
// user.
func Credential(uid, gid uint32) (*syscall.Credential, error) {
	if me := uint32(os.Geteuid()); me != 0 {
		if uid != me {
			return nil, fmt.Errorf("cannot run git as uid %d: the daemon runs as uid %d and not as root", uid, me)
		}
		return nil, nil
	}
	return &syscall.Credential{Uid: uid, Gid: gid}, nil // no supplementary groups
}

// Run runs c and returns its output. If git fails, the error is an *ExitError; if the context
// ends, it is the context's cause.
func (r *Runner) Run(ctx context.Context, c Cmd) ([]byte, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = r.Timeout
	}
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	cred, err := Credential(r.UID, r.GID)
	if err != nil {
		return nil, err
	}
	program := r.Git
	if program == "" {
		program = "git"
	}
	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Env = r.environ(&c)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = c.GitDir
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	// The process group is killed: git starts helpers (ssh, index-pack).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: cred}
	if c.Own != nil {
		// A session of its own: no helper may prompt on the terminal that started polisd.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: cred}
	}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = killDelay
	cmd.Stdin = c.Stdin
	cmd.ExtraFiles = c.Files
	var out bounded
	out.max, out.full = maxStdout, cancel
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	} else {
		cmd.Stdout = &out
	}
	stderr := bounded{max: maxStderr}
	cmd.Stderr = &stderr
	steps := &stepper{say: c.Progress, rest: &stderr}
	if c.Progress != nil {
		cmd.Stderr = steps
	}

	started := time.Now()
	if err := c.start(ctx, cmd, r.Umask); err != nil {
		return nil, fmt.Errorf("start git: %w", err)
	}
	leave, err := charge(ctx, cmd)
	if err != nil {
		return nil, err
	}
	err = errors.Join(cmd.Wait(), steps.end())
	exceeded := leave()
	if r.Log != nil {
		r.Log.Debug("git", "op", strings.Join(c.Args, " "), "path", cmd.Dir, "took", time.Since(started), "err", err)
	}
	if out.over {
		return nil, fmt.Errorf("git %s: %w (%d bytes)", c.verb(), ErrTooLarge, maxStdout)
	}
	if err == nil {
		return out.buf.Bytes(), nil
	}
	exit := &ExitError{Args: c.Args, Code: -1, Stderr: strings.TrimSpace(stderr.buf.String())}
	exit.Stderr += c.outOfMemory(exit.Stderr)
	if exceeded != "" {
		exit.Stderr += "\nfatal: out of memory: " + exceeded
	}
	var status *exec.ExitError
	if errors.As(err, &status) {
		exit.Code = status.ExitCode()
	}
	if cause := ctx.Err(); cause != nil {
		exit.cause = cause
		exit.Stderr = strings.TrimSpace(exit.Stderr + "\nfatal: stopped: " + cause.Error())
	} else if status == nil || exit.Code < 0 {
		exit.cause = err
	}
	return out.buf.Bytes(), exit
}

func (c *Cmd) verb() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// bounded keeps the first max bytes and discards the rest, so that git does not get SIGPIPE while
// it reports an error. It calls full once when it is full.
type bounded struct {
	buf  bytes.Buffer
	max  int
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.max - b.buf.Len(); n > room {
		p = p[:max(room, 0)]
		if !b.over && b.full != nil {
			b.full()
		}
		b.over = true
	}
	b.buf.Write(p)
	return n, nil
}
