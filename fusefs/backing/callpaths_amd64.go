package backing

import "golang.org/x/sys/unix"

var (
	firstPath  = []pathArg{{noDir, 0}}
	secondPath = []pathArg{{noDir, 1}}
	bothPaths  = []pathArg{{noDir, 1}, {noDir, 0}}
)

// oldPathCalls are those that newer architectures do not have.
var oldPathCalls = map[int][]pathArg{
	unix.SYS_OPEN: firstPath, unix.SYS_CREAT: firstPath, unix.SYS_STAT: firstPath, unix.SYS_LSTAT: firstPath, unix.SYS_NEWFSTATAT: {{0, 1}}, unix.SYS_ACCESS: firstPath,
	unix.SYS_CHMOD: firstPath, unix.SYS_CHOWN: firstPath, unix.SYS_LCHOWN: firstPath, unix.SYS_UTIME: firstPath, unix.SYS_UTIMES: firstPath, unix.SYS_READLINK: firstPath,
	unix.SYS_MKDIR: firstPath, unix.SYS_MKNOD: firstPath, unix.SYS_UNLINK: firstPath, unix.SYS_SYMLINK: secondPath, unix.SYS_LINK: bothPaths, unix.SYS_RENAME: bothPaths,
}
