package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/isolation"
	"polis/fusefs"
	"polis/fusefs/conn"
	"polis/fusefs/fdtree"
	"polis/fusefs/fuseuring"
)

const fuseDevice = "/dev/fuse"

func (d *Doctor) fuse(ctx context.Context) []api.Check {
	const name, pass = "FUSE", "FUSE passthrough"
	const slow = "data of files goes through polis-shim: large reads and writes are several times slower"
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		found, cost := fmt.Sprintf("open %s: %v", fuseDevice, err), "no views: agents cannot be added"
		if errors.Is(err, fs.ErrPermission) {
			return []api.Check{bad(name, api.CheckFail, found, cost, "run doctor as root; in a container, give it "+fuseDevice).asRoot()}
		}
		return []api.Check{bad(name, api.CheckFail, found, cost, "load the module (modprobe fuse) or give the container "+fuseDevice).by("sudo modprobe fuse")}
	}
	if err := unix.Close(fd); err != nil {
		return []api.Check{bad(name, api.CheckFail, fmt.Sprintf("close %s: %v", fuseDevice, err), "no views", "check again").by("polisctl doctor")}
	}
	found, err := isolation.Ask(ctx, self, "view", existing(d.config.WorkspacesDir), unix.CLONE_NEWNS)
	if err != nil {
		return []api.Check{bad(name, api.CheckFail, "a view could not be mounted: "+err.Error(), "agents cannot be added", "run doctor as root, with CAP_SYS_ADMIN and "+fuseDevice).asRoot()}
	}
	checks := []api.Check{ok(name, "a view was mounted, read and unmounted"), d.rings()}
	if found != granted {
		return append(checks, bad(pass, api.CheckWarn, found, slow, "use Linux 6.9 or newer with CONFIG_FUSE_PASSTHROUGH, and keep workspaces on an ordinary disk file system").
			without(ofTheKernel+"; which disk workspaces are on, workspaces_dir says"))
	}
	return append(checks, ok(pass, granted))
}

// rings looks for the kernel's quicker way to ask a view.
func (d *Doctor) rings() api.Check {
	const name, cost = "FUSE by io_uring", "each request to a view takes about half as much processor time again"
	given, err := fuseuring.Enabled()
	if errors.Is(err, fuseuring.ErrNone) {
		return bad(name, api.CheckWarn, err.Error(), cost, "use Linux 6.14 or newer with CONFIG_FUSE_IO_URING").without(ofTheKernel)
	}
	if err == nil {
		err = conn.Rings()
	}
	switch {
	case err != nil:
		return bad(name, api.CheckWarn, err.Error(), cost, "see fuse_io_uring in polisd.toml(5)").without(notKnown)
	case !d.config.Sandbox.FuseIOUring:
		return ok(name, "off; recommended where no FUSE server of others runs: sandbox.fuse_io_uring = true takes a third of each request's processor time away")
	case given:
		return ok(name, "on")
	}
	return ok(name, "polisd turns it on while it runs")
}

const granted = "granted"

// probeView mounts a view of a directory on the file system of arg, reads a
// large file through it and reports whether passthrough was granted.
func probeView(ctx context.Context, arg string) (found string, err error) {
	dir, err := os.MkdirTemp(arg, ".polis-doctor-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(dir)) }()
	file := filepath.Join(dir, "probe")
	if err := os.WriteFile(file, make([]byte, 2<<20), 0o600); err != nil {
		return "", err
	}
	native, err := output(ctx, "cksum", file)
	if err != nil {
		return "", err
	}
	root, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	view, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: readOnly{}, Mountpoint: dir, FsName: "polis-doctor"})
	if err != nil {
		return "", err
	}
	if err := view.Mount(ctx); err != nil {
		view.Close()
		return "", err
	}
	defer func() { err = errors.Join(view.Unmount(context.WithoutCancel(ctx)), err) }()
	// Read in another process, so that this one is free to answer.
	seen, err := output(ctx, "cksum", file)
	if err != nil {
		return "", fmt.Errorf("read through the view: %w", err)
	}
	if seen != native {
		return "", errors.New("the view shows other data than the file system below")
	}
	if view.Passthrough() {
		return granted, nil
	}
	return "refused by the kernel, or by the file system of " + arg, nil
}

// readOnly lets everything be read and nothing be changed.
type readOnly struct{}

func (readOnly) Visible(string, bool) bool { return true }
func (readOnly) Read(context.Context, fusefs.Caller, fusefs.Op, string) syscall.Errno {
	return 0
}

func (readOnly) Write(context.Context, fusefs.Caller, fusefs.Op, ...fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	return nil, syscall.EACCES
}

func (readOnly) Publish(context.Context, fusefs.Caller, string, string, int) syscall.Errno {
	return syscall.EACCES
}
func (readOnly) Route(string) int                            { return 0 }
func (readOnly) Xattr(string, string) ([]byte, bool)         { return nil, false }
func (readOnly) Count(fusefs.Op, bool, syscall.Errno, int64) {}

// existing is path or the nearest directory above it that is there.
func existing(path string) string {
	for {
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return path
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}
