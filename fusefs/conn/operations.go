package conn

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Opcodes of the protocol (linux/fuse.h) that are mentioned by name.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opOpen        = 14
	opRelease     = 18
	opInit        = 26
	opInterrupt   = 36
	opPoll        = 40
	opBatchForget = 42
)

// operation describes the layout of a request and how it is handled.
type operation struct {
	name  string
	in    int  // size of the fixed part in bytes, the header included
	names int  // strings that follow
	data  bool // other bytes follow
	// waits: the handler may wait for a person or another agent.
	waits bool
	// quick: the handler never waits, not even for a disk.
	quick bool
	// silent: the kernel expects no answer.
	silent bool
	// allowENOSYS: ENOSYS may be passed on. The kernel then does without.
	allowENOSYS bool
	do          func(r *reader, q *query) (size int, st fuse.Status)
}

func sizeOf[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// operations by opcode. An opcode that is missing here is EIO: it might change something and must
// not pass unchecked.
var operations = [...]operation{
	opLookup:      {name: "LOOKUP", in: headerSize, names: 1, do: doLookup},
	opForget:      {name: "FORGET", in: sizeOf[fuse.ForgetIn](), quick: true, silent: true, do: doForget},
	opGetattr:     {name: "GETATTR", in: sizeOf[fuse.GetAttrIn](), do: doGetAttr},
	4:             {name: "SETATTR", in: sizeOf[fuse.SetAttrIn](), waits: true, do: doSetAttr},
	5:             {name: "READLINK", in: headerSize, waits: true, do: doReadlink},
	6:             {name: "SYMLINK", in: headerSize, names: 2, waits: true, do: doSymlink},
	8:             {name: "MKNOD", in: sizeOf[fuse.MknodIn](), names: 1, waits: true, do: doMknod},
	9:             {name: "MKDIR", in: sizeOf[fuse.MkdirIn](), names: 1, waits: true, do: doMkdir},
	10:            {name: "UNLINK", in: headerSize, names: 1, waits: true, do: doUnlink},
	11:            {name: "RMDIR", in: headerSize, names: 1, waits: true, do: doRmdir},
	12:            {name: "RENAME", in: headerSize + 8, names: 2, waits: true, do: doRename},
	13:            {name: "LINK", in: sizeOf[fuse.LinkIn](), names: 1, waits: true, do: doLink},
	opOpen:        {name: "OPEN", in: sizeOf[fuse.OpenIn](), waits: true, do: doOpen},
	15:            {name: "READ", in: sizeOf[fuse.ReadIn](), do: doRead},
	16:            {name: "WRITE", in: sizeOf[fuse.WriteIn](), data: true, do: doWrite},
	17:            {name: "STATFS", in: headerSize, do: doStatFs},
	opRelease:     {name: "RELEASE", in: sizeOf[fuse.ReleaseIn](), do: doRelease},
	20:            {name: "FSYNC", in: sizeOf[fuse.FsyncIn](), allowENOSYS: true, do: doFsync},
	21:            {name: "SETXATTR", in: headerSize + 8, names: 1, data: true, waits: true, do: doSetXAttr},
	22:            {name: "GETXATTR", in: sizeOf[fuse.GetXAttrIn](), names: 1, waits: true, allowENOSYS: true, do: doGetXAttr},
	23:            {name: "LISTXATTR", in: sizeOf[fuse.GetXAttrIn](), waits: true, allowENOSYS: true, do: doListXAttr},
	24:            {name: "REMOVEXATTR", in: headerSize, names: 1, waits: true, do: doRemoveXAttr},
	25:            {name: "FLUSH", in: sizeOf[fuse.FlushIn](), allowENOSYS: true, do: doFlush},
	27:            {name: "OPENDIR", in: sizeOf[fuse.OpenIn](), waits: true, allowENOSYS: true, do: doOpenDir},
	28:            {name: "READDIR", in: sizeOf[fuse.ReadIn](), waits: true, do: doReadDir},
	29:            {name: "RELEASEDIR", in: sizeOf[fuse.ReleaseIn](), do: doReleaseDir},
	30:            {name: "FSYNCDIR", in: sizeOf[fuse.FsyncIn](), allowENOSYS: true, do: doFsyncDir},
	31:            {name: "GETLK", in: sizeOf[fuse.LkIn](), allowENOSYS: true, do: doGetLk},
	32:            {name: "SETLK", in: sizeOf[fuse.LkIn](), allowENOSYS: true, do: doSetLk},
	33:            {name: "SETLKW", in: sizeOf[fuse.LkIn](), waits: true, allowENOSYS: true, do: doSetLkw},
	34:            {name: "ACCESS", in: sizeOf[fuse.AccessIn](), allowENOSYS: true, do: doAccess},
	35:            {name: "CREATE", in: sizeOf[fuse.CreateIn](), names: 1, waits: true, do: doCreate},
	opInterrupt:   {name: "INTERRUPT", in: sizeOf[fuse.InterruptIn](), do: doInterrupt},
	37:            {name: "BMAP", in: headerSize + 16, allowENOSYS: true, do: doWithout},
	38:            {name: "DESTROY", in: headerSize, do: doNothing},
	39:            {name: "IOCTL", in: sizeOf[fuse.IoctlIn](), data: true, waits: true, do: doIoctl},
	opPoll:        {name: "POLL", in: headerSize + 24, allowENOSYS: true, do: doWithout},
	41:            {name: "NOTIFY_REPLY", in: headerSize + 40, data: true, quick: true, do: doNothing}, // see kick
	opBatchForget: {name: "BATCH_FORGET", in: headerSize + 8, data: true, quick: true, silent: true, do: doBatchForget},
	43:            {name: "FALLOCATE", in: sizeOf[fuse.FallocateIn](), waits: true, do: doFallocate},
	44:            {name: "READDIRPLUS", in: sizeOf[fuse.ReadIn](), waits: true, do: doReadDirPlus},
	45:            {name: "RENAME2", in: sizeOf[fuse.RenameIn](), names: 2, waits: true, do: doRename2},
	46:            {name: "LSEEK", in: sizeOf[fuse.LseekIn](), do: doLseek},
	47:            {name: "COPY_FILE_RANGE", in: sizeOf[fuse.CopyFileRangeIn](), waits: true, do: doCopyRange},
	50:            {name: "SYNCFS", in: headerSize + 8, allowENOSYS: true, do: doWithout},
	51:            {name: "TMPFILE", in: sizeOf[fuse.CreateIn](), names: 1, waits: true, do: doTmpfile},
	52:            {name: "STATX", in: sizeOf[fuse.StatxIn](), allowENOSYS: true, do: doStatx},
	53:            {name: "COPY_FILE_RANGE_64", in: sizeOf[fuse.CopyFileRangeIn](), waits: true, do: doCopyRange64},
}
