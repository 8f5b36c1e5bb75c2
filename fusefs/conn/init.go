package conn

import (
	"fmt"
	"log/slog"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The protocol spoken here is that of Linux 6.9 (7.40); what is older than
// Linux 5.4 (7.31) is refused.
const (
	protoMajor    = 7
	protoMinor    = 40
	oldestMinor   = 31
	initInOldSize = 16 // before 7.36, the header not counted
)

// init answers INIT, the first request of a connection.
func (c *Conn) init() error {
	ready, err := poll(c.fd, unix.POLLIN, initWait)
	if err != nil || ready == 0 {
		return fmt.Errorf("wait for INIT: %w", errAnd(err, unix.ETIMEDOUT))
	}
	buf := make([]uint64, 8192/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf))), 8192)
	// The kernel requires room for a whole WRITE in every read but this one, for which the
	// protocol's minimum suffices.
	n, err := unix.Read(c.fd, b)
	if err != nil {
		return fmt.Errorf("read INIT: %w", err)
	}
	in, err := decodeInit(b[:n])
	if err != nil {
		return err
	}
	type answer struct {
		fuse.OutHeader
		fuse.InitOut
	}
	out := answer{OutHeader: fuse.OutHeader{Length: uint32(sizeOf[answer]()), Unique: in.Unique}}
	c.caps = c.opts.Capabilities & in.Flags64()
	if c.caps&fuse.CAP_OVER_IO_URING != 0 {
		if err := c.makeQueues(); err != nil {
			c.log.Warn("requests do not come by io_uring", slog.String("op", "mount"), slog.Any("err", err))
			c.caps &^= fuse.CAP_OVER_IO_URING
		}
	}
	out.InitOut = fuse.InitOut{
		Major: protoMajor, Minor: min(protoMinor, in.Minor), MaxReadAhead: in.MaxReadAhead,
		Flags: uint32(c.caps), Flags2: uint32(c.caps >> 32),
		MaxBackground: c.opts.MaxBackground, CongestionThreshold: c.opts.MaxBackground / 4 * 3,
		MaxWrite: uint32(c.opts.MaxWrite), TimeGran: 1,
		MaxPages: uint16((c.opts.MaxWrite + page - 1) / page), MaxStackDepth: c.opts.StackDepth,
	}
	if in.Flags&fuse.CAP_INIT_EXT != 0 {
		out.Flags |= fuse.CAP_INIT_EXT
	}
	if _, err := unix.Write(c.fd, unsafe.Slice((*byte)(unsafe.Pointer(&out)), sizeOf[answer]())); err != nil {
		return fmt.Errorf("answer INIT: %w", err)
	}
	return nil
}

// decodeInit checks the first request.
func decodeInit(b []byte) (fuse.InitIn, error) {
	var in fuse.InitIn
	if len(b) < headerSize+initInOldSize {
		return in, fmt.Errorf("%w: INIT of %d bytes", ErrProtocol, len(b))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&in)), sizeOf[fuse.InitIn]()), b)
	switch {
	case in.Opcode != opInit:
		return in, fmt.Errorf("%w: %s before INIT", ErrProtocol, nameOf(in.Opcode))
	case in.Major != protoMajor || in.Minor < oldestMinor:
		return in, fmt.Errorf("%w: version %d.%d, need %d.%d (Linux 5.4) or newer", ErrProtocol, in.Major, in.Minor, protoMajor, oldestMinor)
	}
	if in.Flags&fuse.CAP_INIT_EXT == 0 {
		in.Flags2 = 0
	}
	return in, nil
}
