package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a mount.
type Options struct {
	Mountpoint string // a directory
	FsName     string // first column of /proc/mounts; "" means the subtype
	Subtype    string // the type after "fuse."
	// MaxWrite bounds the data of one request, in bytes; at most 1 MiB.
	MaxWrite int
	// MaxBackground bounds the requests the kernel sends without a caller
	// waiting (read-ahead, releases).
	MaxBackground uint16
	// StackDepth of passthrough: 1, or 2 where the backing is an overlayfs.
	StackDepth uint32
	// Capabilities (fuse.CAP_*) to request; others are off. With CAP_OVER_IO_URING requests come
	// by io_uring if the kernel supports it (Linux 6.14, fuse.enable_uring).
	Capabilities uint64
	// Unchecked lets the kernel check no owner and mode: every process that reaches the mount may do
	// everything. It is for a mount that only root reaches, by its path.
	Unchecked bool
	// Above, if not 0, is the group of the mounter of a file system above this one. Requests with it are that file
	// system's own (Call.Above), and get group 0.
	Above uint32
	// Enter, if not nil, calls mount on a thread that is in another mount namespace, in which
	// Mountpoint is, and returns its error.
	Enter func(mount func() error) error
	// Flags are more flags of mount(2), such as MS_RDONLY.
	Flags uintptr
	// Readers bounds the requests that are handled at the same time; 0 means
	// 1024. Idle is how many of them wait for work; 0 means 2.
	Readers, Idle int
	// Deferred bounds the requests that wait in Call.Wait; 0 means 1024.
	Deferred int
	// OnPanic is called after a handler has panicked, and the call then fails with
	// EIO. It is for file systems whose handlers hold nothing. If nil, the process
	// ends.
	OnPanic func(value any)
	// Log gets faults; nil means slog.Default().
	Log *slog.Logger
}

// Errors of Mount.
var (
	ErrOptions  = errors.New("conn: invalid options")
	ErrProtocol = errors.New("conn: the kernel's FUSE protocol is not understood")
)

const (
	maxData = 1 << 20
	// initWait is how long Mount waits for the kernel's first request, which is queued when
	// mount(2) has returned.
	initWait = 5 * time.Second
)

func (o *Options) complete() error {
	switch {
	case o.Mountpoint == "":
		return fmt.Errorf("%w: no mountpoint", ErrOptions)
	case o.MaxWrite < page || o.MaxWrite > maxData:
		return fmt.Errorf("%w: MaxWrite %d", ErrOptions, o.MaxWrite)
	case o.Subtype == "" || strings.ContainsAny(o.Subtype, ", "):
		return fmt.Errorf("%w: subtype %q", ErrOptions, o.Subtype)
	}
	if o.FsName == "" {
		o.FsName = o.Subtype // the kernel takes no empty one
	}
	if o.Readers <= 0 {
		o.Readers = 1024
	}
	if o.Deferred <= 0 {
		o.Deferred = 1024
	}
	if o.Idle <= 0 {
		o.Idle = 2
	}
	o.Readers = max(o.Readers, o.Idle+1)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Mount attaches fs to a directory as root and negotiates the protocol. No request is handled
// before Serve is called. If it fails nothing stays mounted.
func Mount(fs FileSystem, o Options) (*Conn, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := newConn(fs, o)
	var err error
	if c.fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return nil, fmt.Errorf("conn: open /dev/fuse (is the fuse module loaded?): %w", err)
	}
	mount := func() error {
		err := c.attach()
		if err == nil {
			if err = c.init(); err != nil {
				err = errors.Join(err, unix.Unmount(o.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
			}
		}
		return err
	}
	if o.Enter != nil {
		err = o.Enter(mount)
	} else {
		err = mount()
	}
	if err != nil {
		c.dropQueues()
		c.close()
		return nil, fmt.Errorf("conn: mount %s: %w", o.Mountpoint, err)
	}
	return c, nil
}

func (c *Conn) attach() error {
	var st unix.Stat_t
	if err := unix.Stat(c.opts.Mountpoint, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d,allow_other",
		c.fd, st.Mode&unix.S_IFMT, unix.Geteuid(), unix.Getegid(), c.opts.MaxWrite)
	if !c.opts.Unchecked {
		data += ",default_permissions"
	}
	return unix.Mount(c.opts.FsName, c.opts.Mountpoint, "fuse."+c.opts.Subtype, unix.MS_NOSUID|unix.MS_NODEV|c.opts.Flags, data)
}
