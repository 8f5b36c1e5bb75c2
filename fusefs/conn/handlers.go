package conn

import (
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Handlers of names and attributes: from the wire to FileSystem and back. Each returns the length
// of the answer's body in bytes.

func doLookup(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.EntryOut](r)
	if q.header.NodeId == fuse.FUSE_ROOT_ID && r.c.probing.Load() && string(q.name[0]) == r.c.probe {
		*out = probeEntry()
		return n, fuse.OK
	}
	return n, r.c.fs.Lookup(&r.call, q.header, string(q.name[0]), out)
}

func doForget(r *reader, q *query) (int, fuse.Status) {
	r.c.fs.Forget(q.header.NodeId, as[fuse.ForgetIn](q).Nlookup)
	return 0, fuse.OK
}

func doGetAttr(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.AttrOut](r)
	return n, r.c.fs.GetAttr(&r.call, as[fuse.GetAttrIn](q), out)
}

func doSetAttr(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.AttrOut](r)
	return n, r.c.fs.SetAttr(&r.call, as[fuse.SetAttrIn](q), out)
}

func doStatx(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.StatxOut](r)
	return n, r.c.fs.Statx(&r.call, as[fuse.StatxIn](q), out)
}

func doAccess(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Access(&r.call, as[fuse.AccessIn](q))
}

func doReadlink(r *reader, q *query) (int, fuse.Status) {
	return r.c.fs.Readlink(&r.call, q.header, r.body()[:4096])
}

func doSymlink(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.EntryOut](r)
	return n, r.c.fs.Symlink(&r.call, q.header, string(q.name[1]), string(q.name[0]), out)
}

func doMknod(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.EntryOut](r)
	return n, r.c.fs.Mknod(&r.call, as[fuse.MknodIn](q), string(q.name[0]), out)
}

func doMkdir(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.EntryOut](r)
	return n, r.c.fs.Mkdir(&r.call, as[fuse.MkdirIn](q), string(q.name[0]), out)
}

func doLink(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.EntryOut](r)
	return n, r.c.fs.Link(&r.call, as[fuse.LinkIn](q), string(q.name[0]), out)
}

func doUnlink(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Unlink(&r.call, q.header, string(q.name[0]))
}

func doRmdir(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Rmdir(&r.call, q.header, string(q.name[0]))
}

// doRename has no flags on the wire.
func doRename(r *reader, q *query) (int, fuse.Status) {
	r.rename = fuse.RenameIn{InHeader: *q.header, Newdir: *(*uint64)(after(q, 0))}
	return 0, r.c.fs.Rename(&r.call, &r.rename, string(q.name[0]), string(q.name[1]))
}

func doRename2(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Rename(&r.call, as[fuse.RenameIn](q), string(q.name[0]), string(q.name[1]))
}

func doSetXAttr(r *reader, q *query) (int, fuse.Status) {
	r.setxattr = fuse.SetXAttrIn{InHeader: *q.header, Size: *(*uint32)(after(q, 0)), Flags: *(*uint32)(after(q, 4))}
	if int64(len(q.payload)) != int64(r.setxattr.Size) {
		return 0, fuse.EIO
	}
	return 0, r.c.fs.SetXAttr(&r.call, &r.setxattr, string(q.name[0]), q.payload)
}

func doGetXAttr(r *reader, q *query) (int, fuse.Status) {
	dest, st := r.dest(as[fuse.GetXAttrIn](q).Size)
	if st != fuse.OK {
		return 0, st
	}
	n, st := r.c.fs.GetXAttr(&r.call, q.header, string(q.name[0]), dest)
	return r.xattr(dest, n, st)
}

func doListXAttr(r *reader, q *query) (int, fuse.Status) {
	dest, st := r.dest(as[fuse.GetXAttrIn](q).Size)
	if st != fuse.OK {
		return 0, st
	}
	n, st := r.c.fs.ListXAttr(&r.call, q.header, dest)
	return r.xattr(dest, n, st)
}

// xattr answers with the value, or with its length if only that was requested.
func (r *reader) xattr(dest []byte, n uint32, st fuse.Status) (int, fuse.Status) {
	switch {
	case len(dest) > 0 && st == fuse.OK && int64(n) > int64(len(dest)):
		return 0, fuse.ERANGE
	case len(dest) > 0:
		return int(n), st
	case st == fuse.ERANGE:
		st = fuse.OK
	}
	out, size := body[fuse.GetXAttrOut](r)
	out.Size = n
	return size, st
}

func doRemoveXAttr(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.RemoveXAttr(&r.call, q.header, string(q.name[0]))
}

func doStatFs(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.StatfsOut](r)
	return n, r.c.fs.StatFs(&r.call, q.header, out)
}
