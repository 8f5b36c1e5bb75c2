package conn

import (
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Handlers of open files and directories, and of the connection itself.

func doOpen(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.OpenOut](r)
	return n, r.c.fs.Open(&r.call, as[fuse.OpenIn](q), out)
}

func doCreate(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.CreateOut](r)
	return n, r.c.fs.Create(&r.call, as[fuse.CreateIn](q), string(q.name[0]), out)
}

// doTmpfile leaves the name out: it is that of the kernel's nameless entry.
func doTmpfile(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.CreateOut](r)
	return n, r.c.fs.Tmpfile(&r.call, as[fuse.CreateIn](q), out)
}

func doRead(r *reader, q *query) (int, fuse.Status) {
	in := as[fuse.ReadIn](q)
	dest, st := r.dest(in.Size)
	if st != fuse.OK {
		return 0, st
	}
	return r.c.fs.Read(&r.call, in, dest)
}

func doWrite(r *reader, q *query) (int, fuse.Status) {
	in := as[fuse.WriteIn](q)
	if int64(len(q.payload)) != int64(in.Size) {
		return 0, fuse.EIO
	}
	out, n := body[fuse.WriteOut](r)
	var st fuse.Status
	out.Size, st = r.c.fs.Write(&r.call, in, q.payload)
	return n, st
}

func doLseek(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.LseekOut](r)
	return n, r.c.fs.Lseek(&r.call, as[fuse.LseekIn](q), out)
}

func doFallocate(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Fallocate(&r.call, as[fuse.FallocateIn](q))
}

func doCopyRange(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.WriteOut](r)
	var st fuse.Status
	out.Size, st = r.c.fs.CopyFileRange(&r.call, as[fuse.CopyFileRangeIn](q))
	return n, st
}

func doCopyRange64(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.CopyFileRangeOut](r)
	copied, st := r.c.fs.CopyFileRange(&r.call, as[fuse.CopyFileRangeIn](q))
	out.BytesCopied = uint64(copied)
	return n, st
}

func doIoctl(r *reader, q *query) (int, fuse.Status) {
	in := as[fuse.IoctlIn](q)
	out, n := body[fuse.IoctlOut](r)
	if int64(len(q.payload)) != int64(in.InSize) || int64(in.OutSize) > int64(r.c.opts.MaxWrite-n) {
		return 0, fuse.EIO
	}
	dest := r.body()[n : n+int(in.OutSize)]
	clear(dest)
	return n + len(dest), r.c.fs.Ioctl(&r.call, in, q.payload, out, dest)
}

func doFlush(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Flush(&r.call, as[fuse.FlushIn](q))
}

func doFsync(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.Fsync(&r.call, as[fuse.FsyncIn](q))
}

func doRelease(r *reader, q *query) (int, fuse.Status) {
	r.c.fs.Release(&r.call, as[fuse.ReleaseIn](q))
	return 0, fuse.OK
}

func doOpenDir(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.OpenOut](r)
	return n, r.c.fs.OpenDir(&r.call, as[fuse.OpenIn](q), out)
}

func doReadDir(r *reader, q *query) (int, fuse.Status) { return r.list(q, false) }

func doReadDirPlus(r *reader, q *query) (int, fuse.Status) { return r.list(q, true) }

func (r *reader) list(q *query, plus bool) (int, fuse.Status) {
	in := as[fuse.ReadIn](q)
	dest, st := r.dest(in.Size)
	if st != fuse.OK {
		return 0, st
	}
	r.entries = *fuse.NewDirEntryList(dest, in.Offset)
	if plus {
		st = r.c.fs.ReadDirPlus(&r.call, in, &r.entries)
	} else {
		st = r.c.fs.ReadDir(&r.call, in, &r.entries)
	}
	return len(r.entries.Bytes()), st
}

func doFsyncDir(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.FsyncDir(&r.call, as[fuse.FsyncIn](q))
}

func doReleaseDir(r *reader, q *query) (int, fuse.Status) {
	r.c.fs.ReleaseDir(as[fuse.ReleaseIn](q))
	return 0, fuse.OK
}

func doGetLk(r *reader, q *query) (int, fuse.Status) {
	out, n := body[fuse.LkOut](r)
	return n, r.c.fs.GetLk(&r.call, as[fuse.LkIn](q), out)
}

func doSetLk(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.SetLk(&r.call, as[fuse.LkIn](q))
}

func doSetLkw(r *reader, q *query) (int, fuse.Status) {
	return 0, r.c.fs.SetLkw(&r.call, as[fuse.LkIn](q))
}

// forgetOne is one element of BATCH_FORGET (struct fuse_forget_one).
type forgetOne struct{ node, lookups uint64 }

func doBatchForget(r *reader, q *query) (int, fuse.Status) {
	count := int64(*(*uint32)(after(q, 0)))
	if count*int64(sizeOf[forgetOne]()) != int64(len(q.payload)) {
		return 0, fuse.EIO
	}
	for _, f := range unsafe.Slice((*forgetOne)(unsafe.Pointer(unsafe.SliceData(q.payload))), count) {
		if f.node != probeNode {
			r.c.fs.Forget(f.node, f.lookups)
		}
	}
	return 0, fuse.OK
}

// doInterrupt answers EAGAIN while the interrupted request is not known: the kernel then sends
// the interrupt again (fuse.rst, "Interrupting filesystem operations"), but not for requests of a
// ring. Those are waited for a little longer: their reader may not have taken them yet.
func doInterrupt(r *reader, q *query) (int, fuse.Status) {
	unique := as[fuse.InterruptIn](q).Unique
	for try := 0; !r.c.interrupt(unique); try++ {
		if len(r.c.queues) == 0 || try == onItsWay {
			return 0, fuse.EAGAIN
		}
		select {
		case <-r.c.dead:
			return 0, silence
		case <-time.After(time.Millisecond):
		}
	}
	return 0, silence
}

// onItsWay is for how long an interrupted request may be in transit to its reader, in
// milliseconds.
const onItsWay = 20

func doNothing(*reader, *query) (int, fuse.Status) { return 0, fuse.OK }

// doWithout refuses an opcode that no file system here needs.
func doWithout(*reader, *query) (int, fuse.Status) { return 0, fuse.ENOSYS }

// after is where the fixed part continues behind the header.
func after(q *query, off int) unsafe.Pointer { return unsafe.Add(q.in, headerSize+off) }
