package cage

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	maxNr     = 0x40000000 // __X32_SYSCALL_BIT
)

// forks are the calls beside clone that make a process.
var forks = []uint32{unix.SYS_FORK, unix.SYS_VFORK}
