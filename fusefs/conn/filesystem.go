package conn

import "github.com/hanwen/go-fuse/v2/fuse"

// FileSystem answers requests; it is called concurrently. Its arguments (headers, data, buffers)
// belong to the reader and are valid until the method returns; names are copies. Buffers named
// out are zeroed before the call.
//
// It has every operation of the protocol that a view must decide about: a missing one does not
// compile.
type FileSystem interface {
	Lookup(c *Call, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status
	Forget(node, lookups uint64)
	GetAttr(c *Call, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status
	SetAttr(c *Call, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status
	Statx(c *Call, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status
	Access(c *Call, in *fuse.AccessIn) fuse.Status
	// Readlink puts the text into dest and returns its length.
	Readlink(c *Call, h *fuse.InHeader, dest []byte) (int, fuse.Status)

	Mknod(c *Call, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status
	Mkdir(c *Call, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status
	Symlink(c *Call, h *fuse.InHeader, text, name string, out *fuse.EntryOut) fuse.Status
	Link(c *Call, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status
	Unlink(c *Call, h *fuse.InHeader, name string) fuse.Status
	Rmdir(c *Call, h *fuse.InHeader, name string) fuse.Status
	Rename(c *Call, in *fuse.RenameIn, oldName, newName string) fuse.Status

	Create(c *Call, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status
	Tmpfile(c *Call, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status
	Open(c *Call, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status
	// Read fills dest, whose length is the requested one; fewer bytes mean the end of the file.
	Read(c *Call, in *fuse.ReadIn, dest []byte) (int, fuse.Status)
	Write(c *Call, in *fuse.WriteIn, data []byte) (uint32, fuse.Status)
	Lseek(c *Call, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status
	Fallocate(c *Call, in *fuse.FallocateIn) fuse.Status
	CopyFileRange(c *Call, in *fuse.CopyFileRangeIn) (uint32, fuse.Status)
	Ioctl(c *Call, in *fuse.IoctlIn, data []byte, out *fuse.IoctlOut, dest []byte) fuse.Status
	Flush(c *Call, in *fuse.FlushIn) fuse.Status
	Fsync(c *Call, in *fuse.FsyncIn) fuse.Status
	Release(c *Call, in *fuse.ReleaseIn)

	OpenDir(c *Call, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status
	ReadDir(c *Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status
	ReadDirPlus(c *Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status
	FsyncDir(c *Call, in *fuse.FsyncIn) fuse.Status
	ReleaseDir(in *fuse.ReleaseIn)

	// GetXAttr and ListXAttr put the value into dest and return its length. An empty dest
	// requests the length only; one too short is ERANGE.
	GetXAttr(c *Call, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status)
	ListXAttr(c *Call, h *fuse.InHeader, dest []byte) (uint32, fuse.Status)
	SetXAttr(c *Call, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status
	RemoveXAttr(c *Call, h *fuse.InHeader, name string) fuse.Status

	GetLk(c *Call, in *fuse.LkIn, out *fuse.LkOut) fuse.Status
	SetLk(c *Call, in *fuse.LkIn) fuse.Status
	SetLkw(c *Call, in *fuse.LkIn) fuse.Status

	StatFs(c *Call, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status
}
