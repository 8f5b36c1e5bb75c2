package conn

import "github.com/hanwen/go-fuse/v2/fuse"

// ReadOnly answers for a FileSystem whose tree does not change the operations that it does not implement:
// those that the kernel can do without get ENOSYS, and those that would change the tree EROFS. A file
// system embeds it, and implements the others: lookups, attributes, links, reading, and StatFs.
type ReadOnly struct{}

func (ReadOnly) Statx(*Call, *fuse.StatxIn, *fuse.StatxOut) fuse.Status     { return fuse.ENOSYS }
func (ReadOnly) Access(*Call, *fuse.AccessIn) fuse.Status                   { return fuse.ENOSYS }
func (ReadOnly) Tmpfile(*Call, *fuse.CreateIn, *fuse.CreateOut) fuse.Status { return fuse.ENOSYS }
func (ReadOnly) Lseek(*Call, *fuse.LseekIn, *fuse.LseekOut) fuse.Status     { return fuse.ENOSYS }
func (ReadOnly) Fallocate(*Call, *fuse.FallocateIn) fuse.Status             { return fuse.ENOSYS }
func (ReadOnly) CopyFileRange(*Call, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (ReadOnly) Ioctl(*Call, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.ENOSYS
}
func (ReadOnly) Flush(*Call, *fuse.FlushIn) fuse.Status                 { return fuse.ENOSYS }
func (ReadOnly) Fsync(*Call, *fuse.FsyncIn) fuse.Status                 { return fuse.ENOSYS }
func (ReadOnly) OpenDir(*Call, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.ENOSYS }
func (ReadOnly) FsyncDir(*Call, *fuse.FsyncIn) fuse.Status              { return fuse.ENOSYS }
func (ReadOnly) ReleaseDir(*fuse.ReleaseIn)                             {}
func (ReadOnly) GetXAttr(*Call, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (ReadOnly) ListXAttr(*Call, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}
func (ReadOnly) GetLk(*Call, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }
func (ReadOnly) SetLk(*Call, *fuse.LkIn) fuse.Status              { return fuse.ENOSYS }
func (ReadOnly) SetLkw(*Call, *fuse.LkIn) fuse.Status             { return fuse.ENOSYS }

func (ReadOnly) SetAttr(*Call, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.EROFS }
func (ReadOnly) Mknod(*Call, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (ReadOnly) Mkdir(*Call, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (ReadOnly) Symlink(*Call, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}
func (ReadOnly) Link(*Call, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status { return fuse.EROFS }
func (ReadOnly) Unlink(*Call, *fuse.InHeader, string) fuse.Status             { return fuse.EROFS }
func (ReadOnly) Rmdir(*Call, *fuse.InHeader, string) fuse.Status              { return fuse.EROFS }
func (ReadOnly) Rename(*Call, *fuse.RenameIn, string, string) fuse.Status     { return fuse.EROFS }
func (ReadOnly) Create(*Call, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}
func (ReadOnly) Write(*Call, *fuse.WriteIn, []byte) (uint32, fuse.Status)     { return 0, fuse.EROFS }
func (ReadOnly) SetXAttr(*Call, *fuse.SetXAttrIn, string, []byte) fuse.Status { return fuse.EROFS }
func (ReadOnly) RemoveXAttr(*Call, *fuse.InHeader, string) fuse.Status        { return fuse.EROFS }
