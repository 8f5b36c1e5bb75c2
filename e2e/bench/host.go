package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mount starts a file system's process and waits until it serves.
func (b *bed) mount(ctx context.Context, c *column, point string, argv ...string) error {
	log, err := os.Create(point + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	ended, err := background(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	b.later(func() error {
		// A signal alone leaves a busy mount. The process ends with its mount.
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
		_ = end(argv[0], cmd, ended, 10*time.Second) // by a signal or by itself, it is gone
		return nil
	})
	c.servers = append(c.servers, cmd.Process.Pid)
	return until(ctx, func() (bool, error) {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(point + ".log") // only to say more
			return false, fmt.Errorf("%s ended: %w: %s", argv[0], err, text)
		default:
		}
		left, err := mountsBelow(point)
		return len(left) > 0, err
	})
}

// kernelOverlay is the column of the kernel's overlay without a view: what an agent changes is beside a
// tree that is only read, on the same file system.
const kernelOverlay = "overlay"

// overlay mounts the tree in backing at point, with a layer for changes above it. The git directory is
// in that layer, as that of an agent is its own.
func (b *bed) overlay(ctx context.Context, backing, point string) error {
	upper, work := backing+".upper", backing+".work"
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(backing, ".git"), filepath.Join(upper, ".git")); err != nil {
		return err
	}
	if _, err := output(ctx, "", "chown", "--reference="+backing, upper); err != nil {
		return err
	}
	data := "lowerdir=" + backing + ",upperdir=" + upper + ",workdir=" + work + ",redirect_dir=on,index=off,metacopy=off,xino=off"
	if err := unix.Mount(kernelOverlay, point, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount an overlay at %s: %w", point, err)
	}
	b.later(func() error {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
		return nil
	})
	return nil
}

// mountsBelow lists the mount points at and below dir.
func mountsBelow(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var points []string
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 2 && (f[1] == dir || strings.HasPrefix(f[1], dir+"/")) {
			points = append(points, f[1])
		}
	}
	return points, nil
}

// shims lists the processes that serve the views of this benchmark.
func (b *bed) shims() ([]int, error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range lines {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it ended meanwhile
		}
		args := strings.Split(string(text), "\x00")
		if len(args) > 2 && filepath.Base(args[0]) == "polis-shim" && strings.HasPrefix(args[2], b.dir+"/") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// used is the CPU time of processes so far, threads that ended included: the
// clock of each (clock_getcpuclockid(3)).
func used(pids []int) (time.Duration, error) {
	const sched = 2
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid)<<3|sched, &ts); err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// freePool is a network for polisd that no interface has an address in.
func freePool() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("addresses of this machine: %w", err)
	}
	for i := range 20 {
		// Two benchmarks that search at the same time must not find the same one.
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(180 + (os.Getpid()+i)%20), 0, 0}), 16)
		taken := slices.ContainsFunc(addrs, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && p.Overlaps(pool)
		})
		if !taken {
			return pool.String(), nil
		}
	}
	return "", errors.New("no free network for polisd among 10.180.0.0/16 to 10.199.0.0/16")
}

// flush writes the file system's dirty pages to the disk.
func flush(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("syncfs %s: %w", dir, err)
	}
	return nil
}

// machine describes the machine that was measured.
func machine(dir string) string {
	var u unix.Utsname
	kernel := "unknown kernel"
	if err := unix.Uname(&u); err == nil {
		kernel = "Linux " + unix.ByteSliceToString(u.Release[:])
	}
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	var si unix.Sysinfo_t
	memory := "unknown memory"
	if err := unix.Sysinfo(&si); err == nil {
		memory = fmt.Sprintf("%d GiB", (si.Totalram*uint64(si.Unit)+1<<29)>>30)
	}
	return fmt.Sprintf("%s, %d x %s, %s, %s on %s", kernel, runtime.NumCPU(), model, memory, runtime.Version(), filesystem(dir))
}

func filesystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "an unknown file system"
	}
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs"}
	if n, ok := names[st.Type]; ok {
		return n
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// load returns the machine's load averages: of the last one and five minutes, this
// program's own included.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:2], " ")
}
