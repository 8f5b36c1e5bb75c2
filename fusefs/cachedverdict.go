package fusefs

import (
	"time"

	"polis/fusefs/inode"
)

// CachedVerdict is what a guard can decide about a name without a request.
type CachedVerdict uint8

// The parts of a CachedVerdict.
const (
	// Shown: the name exists for the agent; Visible would say true.
	Shown CachedVerdict = inode.VerdictShown << iota
	// Readable: Read would allow every operation on it, and report nothing.
	Readable
	// Unreadable and Unwritable: Read or Write would refuse it without a request. Operations on
	// open files are then refused too.
	Unreadable
	Unwritable
)

// CacheableGuard is a Guard whose answers about names are the same until its
// Generation changes. They are then remembered with each inode, and the guard
// is not asked again. A guard that wraps another must not pass these methods on
// unless its own answers are the same.
type CacheableGuard interface {
	// Generation only grows, and grows whenever an answer may have changed.
	Generation() uint64
	// CachedVerdict may leave out what it does not know at once.
	CachedVerdict(path string, dir bool) CachedVerdict
}

// SkipsPublish is a Guard whose Publish allows everything, whatever the content:
// then nothing is opened to be shown to it.
type SkipsPublish interface {
	PublishesAll() bool
}

// Keep is what the kernel may keep of a name and its object. What others can
// change must not be kept, unless they invalidate it.
type Keep uint32

// The parts of a Keep.
const (
	// KeepName: the name stands for the same object until it is changed here.
	KeepName Keep = 1 << iota
	// KeepAttr and KeepData are the object's attributes and content.
	KeepAttr
	KeepData
	// KeepAbsent: if there is no such name, there is none until it is made here.
	KeepAbsent
	// KeepList: the names in the directory.
	KeepList
	// KeepMode is for a directory in which others make names, and whose owner and mode are fixed:
	// without it the guard is called for every step through the directory. Its size and times may
	// be a second old.
	KeepMode
	// KeepSharedDir is for a directory whose name is kept though others can remove
	// it. A caller that does not find something in it, or lists it, must look up the
	// whole path again if the name does not stand for it any more.
	KeepSharedDir

	KeepAll = KeepName | KeepAttr | KeepData | KeepAbsent | KeepList | KeepMode
)

// Keeper is a Guard that says, name by name, what may be kept where
// Config.Timeout allows keeping at all. Without it, that is everything. It is
// pure: the same name always gets the same answer.
type Keeper interface {
	Keep(path string) Keep
}

// WriteOnce is a Guard of names that are never replaced once they are there, which
// it cannot see to by itself: others make them too. It is pure.
type WriteOnce interface {
	Lasts(path string) bool
}

// keepModeFor is how old the times of a directory may be that is kept for its
// mode only.
const keepModeFor = time.Second

// thisCall is the shortest time the kernel can keep something for, a tick of its
// clock (1 to 10 ms): as long as the call takes that asked.
const thisCall = time.Nanosecond

const verdictReadable = uint64(Readable)

// generation changes whenever the guard's answers or the paths of objects below a
// moved directory may have: both counts only grow. 0 means that nothing may be
// remembered. Called with the name lock held, in whatever way.
func (fs *FS) generation() uint64 { return fs.layers.Generation() }

// holds reports whether a verdict is of this generation and includes the wanted part.
func (fs *FS) holds(verdict, what uint64) bool {
	return verdict&what != 0 && fs.cacheable != nil && verdict&^(1<<inode.GenerationShift-1) == fs.generation()
}

// judge asks for a name's standing, to be remembered.
func (fs *FS) judge(path string, dir bool) uint64 {
	if fs.cacheable == nil {
		return 0
	}
	generation := fs.generation() // first: an answer given meanwhile is at most too new
	return generation | uint64(fs.cacheable.CachedVerdict(path, dir))
}

// keepPath is what the kernel may keep of a name.
func (fs *FS) keepPath(path string) Keep {
	switch {
	case fs.timeout == 0:
		return 0
	case fs.keeper == nil:
		return KeepAll
	}
	return fs.keeper.Keep(path)
}

// keepName is keepPath for a name in a directory, without making a path of it
// where that says nothing.
func (fs *FS) keepName(parent *inode.Node, name string) Keep {
	switch {
	case fs.timeout == 0:
		return 0
	case fs.keeper == nil:
		return KeepAll
	}
	return fs.keeper.Keep(fs.tree.Child(parent, name))
}

// keepsAbsent reports whether the kernel may believe that there is no such name.
// One that others can make show from below, it may not.
func (fs *FS) keepsAbsent(parent *inode.Node, name string) bool {
	if fs.keepName(parent, name)&KeepAbsent == 0 {
		return false
	}
	return !fs.layers.MayAppear(parent, name)
}

// ttl is how long the kernel may keep what k includes.
func (fs *FS) ttl(k, what Keep) time.Duration {
	if k&what == 0 {
		return 0
	}
	return fs.timeout
}
