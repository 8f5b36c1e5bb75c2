package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every request that Linux can send (linux/fuse.h, protocol 7.45) is dealt with
// or refused on purpose.
func TestEveryRequestOfTheKernelIsAccountedFor(t *testing.T) {
	handled := map[int]string{
		1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR", 10: "UNLINK",
		11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS", 18: "RELEASE", 20: "FSYNC",
		21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH", 27: "OPENDIR", 28: "READDIR",
		29: "RELEASEDIR", 30: "FSYNCDIR", 31: "GETLK", 32: "SETLK", 33: "SETLKW", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT",
		37: "BMAP", 38: "DESTROY", 39: "IOCTL", 40: "POLL", 41: "NOTIFY_REPLY", 42: "BATCH_FORGET", 43: "FALLOCATE", 44: "READDIRPLUS",
		45: "RENAME2", 46: "LSEEK", 47: "COPY_FILE_RANGE", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX", 53: "COPY_FILE_RANGE_64",
	}
	refused := map[int]string{
		opInit: "INIT: once, before anything else (init.go)",
		48:     "SETUPMAPPING: virtiofs only (DAX)",
		49:     "REMOVEMAPPING: virtiofs only (DAX)",
	}
	unused := map[int]bool{0: true, 7: true, 19: true}
	for code := range len(operations) + 8 {
		op := operation{}
		if code < len(operations) {
			op = operations[code]
		}
		name, ok := handled[code]
		if !ok {
			require.Nil(t, op.do, "opcode %d has a handler without a decision", code)
			if code < len(operations) && !unused[code] {
				require.Contains(t, refused, code)
			}
			continue
		}
		require.Equal(t, name, op.name, "opcode %d", code)
		require.NotNil(t, op.do, name)
		require.GreaterOrEqual(t, op.in, headerSize, name)
	}
	require.Len(t, operations, 54)
}

// ENOSYS turns a request off for the whole mount. Only for these is that
// harmless: the kernel does without, and checks no less.
func TestOnlyHarmlessRequestsCanBeTurnedOff(t *testing.T) {
	lets := map[string]bool{
		"FSYNC": true, "GETXATTR": true, "LISTXATTR": true, "FLUSH": true, "OPENDIR": true, "FSYNCDIR": true, "GETLK": true,
		"SETLK": true, "SETLKW": true, "ACCESS": true, "BMAP": true, "POLL": true, "SYNCFS": true, "STATX": true,
	}
	silent := map[string]bool{"FORGET": true, "BATCH_FORGET": true}
	for _, op := range operations {
		require.Equal(t, lets[op.name], op.allowENOSYS, op.name)
		require.Equal(t, silent[op.name], op.silent, op.name)
		require.False(t, op.quick && op.waits, op.name)
	}
}
