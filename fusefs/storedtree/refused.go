package storedtree

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"polis/fusefs/conn"
)

// refused answers all other operations: those that the kernel does not need, and those that would
// change the tree.
type refused struct{}

func (refused) Statx(*conn.Call, *fuse.StatxIn, *fuse.StatxOut) fuse.Status     { return fuse.ENOSYS }
func (refused) Access(*conn.Call, *fuse.AccessIn) fuse.Status                   { return fuse.ENOSYS }
func (refused) Tmpfile(*conn.Call, *fuse.CreateIn, *fuse.CreateOut) fuse.Status { return fuse.ENOSYS }
func (refused) Lseek(*conn.Call, *fuse.LseekIn, *fuse.LseekOut) fuse.Status     { return fuse.ENOSYS }
func (refused) Fallocate(*conn.Call, *fuse.FallocateIn) fuse.Status             { return fuse.ENOSYS }
func (refused) CopyFileRange(*conn.Call, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (refused) Ioctl(*conn.Call, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.ENOSYS
}
func (refused) Flush(*conn.Call, *fuse.FlushIn) fuse.Status                 { return fuse.ENOSYS }
func (refused) Fsync(*conn.Call, *fuse.FsyncIn) fuse.Status                 { return fuse.ENOSYS }
func (refused) OpenDir(*conn.Call, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.ENOSYS }
func (refused) FsyncDir(*conn.Call, *fuse.FsyncIn) fuse.Status              { return fuse.ENOSYS }
func (refused) ReleaseDir(*fuse.ReleaseIn)                                  {}
func (refused) GetXAttr(*conn.Call, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (refused) ListXAttr(*conn.Call, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (refused) GetLk(*conn.Call, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }
func (refused) SetLk(*conn.Call, *fuse.LkIn) fuse.Status              { return fuse.ENOSYS }
func (refused) SetLkw(*conn.Call, *fuse.LkIn) fuse.Status             { return fuse.ENOSYS }

func (refused) SetAttr(*conn.Call, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.EROFS }
func (refused) Mknod(*conn.Call, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (refused) Mkdir(*conn.Call, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (refused) Symlink(*conn.Call, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (refused) Link(*conn.Call, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status { return fuse.EROFS }
func (refused) Unlink(*conn.Call, *fuse.InHeader, string) fuse.Status             { return fuse.EROFS }
func (refused) Rmdir(*conn.Call, *fuse.InHeader, string) fuse.Status              { return fuse.EROFS }
func (refused) Rename(*conn.Call, *fuse.RenameIn, string, string) fuse.Status     { return fuse.EROFS }
func (refused) Create(*conn.Call, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}
func (refused) Write(*conn.Call, *fuse.WriteIn, []byte) (uint32, fuse.Status)     { return 0, fuse.EROFS }
func (refused) SetXAttr(*conn.Call, *fuse.SetXAttrIn, string, []byte) fuse.Status { return fuse.EROFS }
func (refused) RemoveXAttr(*conn.Call, *fuse.InHeader, string) fuse.Status        { return fuse.EROFS }
