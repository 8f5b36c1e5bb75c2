package conn

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is an io_uring(7) to which one command is submitted at a time, of 128 bytes. Only the
// thread that called enable may submit and wait; with it the ring ends.
type ring struct {
	fd     int    // until enable
	number uint32 // since then
	rings  []byte // both rings
	sqes   []byte
	sqHead *uint32 // moved by the kernel when it has taken, and executed, a submission
	sqTail *uint32
	cqHead *uint32
	cqTail *uint32
	cqes   unsafe.Pointer
	mask   uint32
}

// From linux/io_uring.h.
const (
	opRead     = 22
	opUringCmd = 46

	setupCQSize       = 1 << 3
	setupDisabled     = 1 << 6
	setupSQE128       = 1 << 10
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoMmap       = 1 << 14

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3

	enterRegisteredRing = 1 << 4

	registerEnableRings = 12
	registerRingFDs     = 20
)

type ringOffsets struct {
	head, tail, ringMask, ringEntries, a, b, c, _ uint32 // sq: flags, dropped, array; cq: overflow, cqes, flags
	memory                                        uint64 // sq: of the submissions; cq: of both rings
}

type ringParams struct {
	sqEntries, cqEntries, flags, _, _, features, _ uint32
	_                                              [3]uint32
	sq, cq                                         ringOffsets
}

// sqe is struct io_uring_sqe of 128 bytes for a command to a file.
type sqe struct {
	opcode  uint8
	_       [3]uint8
	fd      int32
	op, _   uint32
	addr    uint64
	len     uint32
	_       uint32
	user    uint64
	_       uint64
	command [80]byte
}

type cqe struct {
	user  uint64
	res   int32
	flags uint32
}

// newRing makes a ring without submissions. completions is how many of them it keeps at least; the
// kernel keeps more, at a cost.
//
// Its memory is of this process. A mapping of the ring would keep it, and with it the connection, until the
// last thread of a killed process has ended, which can be one that waits for the connection: see package apart.
func newRing(completions uint32) (*ring, error) {
	p := ringParams{flags: setupDisabled | setupSQE128 | setupSingleIssuer | setupDeferTaskrun | setupNoMmap}
	if completions > 1 {
		p.flags |= setupCQSize
		p.cqEntries = completions
	}
	r := &ring{fd: -1}
	err := r.allocate(int(completions))
	if err != nil {
		return nil, fmt.Errorf("memory of a ring: %w", errAnd(err, r.close()))
	}
	p.cq.memory, p.sq.memory = uint64(addressOf(r.rings)), uint64(addressOf(r.sqes))
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		return nil, errAnd(os.NewSyscallError("io_uring_setup", e), r.close())
	}
	r.fd = int(fd)
	if size := max(int(p.sq.c)+4*int(p.sqEntries), int(p.cq.b)+sizeOf[cqe]()*int(p.cqEntries)); size > len(r.rings) || p.sqEntries != 1 {
		return nil, errAnd(unix.EOPNOTSUPP, r.close())
	}
	at := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sqHead, r.sqTail, r.cqHead, r.cqTail = at(p.sq.head), at(p.sq.tail), at(p.cq.head), at(p.cq.tail)
	r.cqes, r.mask = unsafe.Pointer(&r.rings[p.cq.b]), *at(p.cq.ringMask)
	*at(p.sq.c) = 0 // the only place in the array of submissions means the only entry
	return r, nil
}

// allocate maps memory for one submission and so many completions, of which the kernel makes a power of two, at
// least two, and what it needs beside them.
func (r *ring) allocate(completions int) (err error) {
	const beside = 512
	size := (beside + 2*sizeOf[cqe]()*max(completions, 2) + page - 1) &^ (page - 1)
	if r.rings, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE); err == nil {
		r.sqes, err = unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	}
	return err
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// enable makes the calling thread the one that uses the ring. It gets a number of
// the thread's own, so that rings take no descriptors.
func (r *ring) enable() error {
	if err := r.control(registerEnableRings, nil, 0); err != nil {
		return err
	}
	at := struct {
		offset, _ uint32
		data      uint64
	}{offset: ^uint32(0), data: uint64(r.fd)}
	if err := r.control(registerRingFDs, unsafe.Pointer(&at), 1); err != nil {
		return err
	}
	err := unix.Close(r.fd)
	r.fd, r.number = -1, at.offset
	return err
}

func (r *ring) control(op uintptr, arg unsafe.Pointer, n uintptr) error {
	if _, _, e := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), op, uintptr(arg), n, 0, 0); e != 0 {
		return os.NewSyscallError("io_uring_register", e)
	}
	return nil
}

// prepare returns the zeroed entry for the next command and queues it for submission.
func (r *ring) prepare(fd int, op uint32) *sqe {
	s := (*sqe)(unsafe.Pointer(unsafe.SliceData(r.sqes)))
	*s = sqe{opcode: opUringCmd, fd: int32(fd), op: op}
	atomic.StoreUint32(r.sqTail, *r.sqTail+1)
	return s
}

// taken reports that the kernel has executed what was prepared.
func (r *ring) taken() bool { return atomic.LoadUint32(r.sqHead) == atomic.LoadUint32(r.sqTail) }

// submit submits what was prepared and does not wait.
func (r *ring) submit() error {
	for !r.taken() {
		_, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.number), 1, 0, enterRegisteredRing, 0, 0)
		if e != 0 && e != unix.EINTR {
			return os.NewSyscallError("io_uring_enter", e)
		}
	}
	return nil
}

// timeout is what io_uring_enter(2) takes with IORING_ENTER_EXT_ARG.
type timeout struct {
	sigmask uint64
	size    uint32
	_       uint32
	ts      uint64
}

// wait submits what was prepared and waits for a completion, for limit if that
// is above zero; then the errno is ETIME.
func (r *ring) wait(limit time.Duration) (done cqe, e syscall.Errno) {
	for {
		if head := *r.cqHead; head != atomic.LoadUint32(r.cqTail) {
			done = *(*cqe)(unsafe.Add(r.cqes, uintptr(head&r.mask)*unsafe.Sizeof(cqe{})))
			atomic.StoreUint32(r.cqHead, head+1)
			return done, 0
		}
		n := *r.sqTail - atomic.LoadUint32(r.sqHead)
		if limit > 0 {
			ts := unix.NsecToTimespec(limit.Nanoseconds())
			arg := timeout{ts: uint64(uintptr(unsafe.Pointer(&ts)))}
			_, _, e = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.number), uintptr(n), 1, enterRegisteredRing|enterGetEvents|enterExtArg, uintptr(unsafe.Pointer(&arg)), unsafe.Sizeof(arg))
			if e == unix.ETIME && *r.cqHead == atomic.LoadUint32(r.cqTail) {
				return done, e
			}
		} else {
			_, _, e = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.number), uintptr(n), 1, enterRegisteredRing|enterGetEvents, 0, 0)
		}
		if e != 0 && e != unix.EINTR && e != unix.ETIME {
			return done, e
		}
	}
}

func (r *ring) close() error {
	var err error
	for _, m := range [][]byte{r.rings, r.sqes} {
		if m != nil {
			err = errAnd(err, unix.Munmap(m))
		}
	}
	if r.fd >= 0 {
		err = errAnd(err, unix.Close(r.fd))
	}
	return err
}
