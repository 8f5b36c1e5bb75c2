package fusefs

import (
	"context"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

const (
	// useAfter is how long after a removal other names are used, for others that follow.
	useAfter = time.Millisecond
	// useMost bounds the names of a file that are used, until the kernel has asked.
	useMost = 3
)

// nameUses wakes what uses names of files. The zero value is ready.
type nameUses struct {
	once sync.Once
	wake chan struct{} // with room for one
}

// useSoon uses another name of a file that lost one, soon.
func (fs *FS) useSoon(one *inode.Former) {
	if fs.cfg.Above == "" {
		return
	}
	fs.formers.Wait(one)
	fs.uses.once.Do(func() {
		fs.uses.wake = make(chan struct{}, 1)
		fs.watchers.Go(fs.useNames)
	})
	select {
	case fs.uses.wake <- struct{}{}:
	default:
	}
}

// useNames has names of files that lost one used, until the connection ends. One thread uses all of them, because each
// new one has all descriptors of this process for a moment.
func (fs *FS) useNames() {
	batches := make(chan lostNames)
	defer close(batches)
	fs.watchers.Go(func() {
		err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
			for all := range batches {
				fs.useAll(all)
			}
			return nil
		})
		if err != nil {
			fs.log.Warn("names of files are not revalidated", slog.String("op", "revalidate"), slog.Any("err", err))
		}
	})
	ended := fs.server.Dead()
	for {
		select {
		case <-fs.uses.wake:
		case <-fs.dying:
			return
		case <-ended:
			return
		}
		select { // for others that follow
		case <-time.After(useAfter):
		case <-fs.dying:
			return
		}
		select {
		case batches <- fs.takeLost():
		case <-fs.dying:
			return
		case <-ended:
			return
		}
	}
}

// lostNames are names that files lost, by whether the kernel has forgotten all in the directory.
type lostNames map[*inode.Former]bool

func (fs *FS) takeLost() lostNames {
	all := lostNames{}
	forgotten := map[uint64]bool{}
	for _, one := range fs.formers.Take() {
		is, done := forgotten[one.Dir()]
		if !done {
			// What removed the name has the directory locked until the kernel has forgotten the name. The notification
			// of a name that is none waits for that, unless the kernel refuses the name.
			is = fs.server.EntryNotify(one.Dir(), ".") == syscall.ENOENT
			forgotten[one.Dir()] = is
		}
		all[one] = is
	}
	return all
}

// useAll uses names of files. The caller is apart.
func (fs *FS) useAll(all lostNames) {
	root, err := unix.Open(fs.cfg.Above, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it is not mounted: nobody uses a name
	}
	defer backing.Close(root)
	for one, forgotten := range all {
		used := fs.useName(root, one)
		fs.formers.Expected(one, used && forgotten)
	}
}

// useName uses names of a file until the kernel has asked for the one that it lost. If it does not ask, it never will.
// used is false if no name can be used.
func (fs *FS) useName(root int, one *inode.Former) (used bool) {
	for _, path := range fs.tree.SomePaths(one.Node, useMost) {
		for range 2 { // what the kernel has to look up, it does not revalidate
			if !fs.formers.Expect(uint32(unix.Gettid()), one, fs.timeout) {
				return used
			}
			how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: backing.ResolveFlags}
			fd, err := unix.Openat2(root, path, &how)
			if err != nil {
				break
			}
			backing.Close(fd)
			used = true
		}
	}
	return used
}
