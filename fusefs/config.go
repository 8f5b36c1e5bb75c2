package fusefs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
	"polis/fusefs/fusectl"
	"polis/fusefs/inode"
	"polis/fusefs/openfile"
	"polis/fusefs/overlay"
)

// Errors of New and Mount.
var (
	ErrConfig  = errors.New("fusefs: invalid configuration")
	ErrMounted = errors.New("fusefs: already mounted")
)

const (
	defaultTimeout = time.Hour
	// dirDescriptors bounds the cache of directory descriptors.
	dirDescriptors = 512
	maxWrite       = 1 << 20
)

// Config describes what a view shows and who decides.
type Config struct {
	// Roots are directory descriptors (O_PATH is enough). Roots[0] is the main
	// backing directory; the others are private overlays chosen by
	// Guard.Route. New duplicates them; the caller keeps its own.
	Roots []int
	Guard Guard
	// Mountpoint may be the backing directory itself.
	Mountpoint string
	// FsName is the first column of /proc/mounts.
	FsName string
	// Log gets state changes and faults; nil means slog.Default().
	Log *slog.Logger
	// Timeout is how long the kernel may keep names and attributes. It is
	// right to be long only where the view is the sole way to the files.
	// Zero means one hour, negative means not at all.
	Timeout time.Duration
	// NoPassthrough serves all data from user space.
	NoPassthrough bool
	// NoRing has all requests come over /dev/fuse, also where the kernel offers io_uring.
	NoRing bool
	// NoXattrs is true if the view has no extended attributes: the kernel then asks
	// once, not before the first write to every file. Only for what programs keep
	// none in.
	NoXattrs bool
	// DirDescriptors bounds the cached directory descriptors; 0 means 512.
	DirDescriptors int
	// Shared is what the view shows that is not its own; nil for nothing.
	Shared *overlay.Shared
	// MaxHandles bounds the files open at the same time; 0 means three
	// quarters of RLIMIT_NOFILE. More is ENFILE for the caller.
	MaxHandles int
	// OnFull is called, at most once a second, when an open is refused because of
	// MaxHandles. It must not block. May be nil.
	OnFull func(c Caller, limit int)
	// OnIdle is called when the kernel knew many inodes of the view, has asked nothing for
	// some seconds, and has forgotten what nothing uses: memory can be given back. It must
	// not use the view. May be nil.
	OnIdle func()
	// BeforeTrim is called before the kernel is made to forget what nothing uses: a file system above
	// the view must have forgotten it first. FollowShared calls it after a change. It may use the view. May be nil.
	BeforeTrim func()
	// Opened are names that programs open wherever they find them: under these there
	// are no pipes and sockets (EPERM), on which an open would wait.
	Opened []string
	// Auditor records what callers open and change; nil for nothing.
	Auditor Auditor
	// Work is a descriptor of a directory on the mount of Roots[0]. If it is not 0 the view is
	// mounted for an overlay file system above it: Roots[0] is UpperName in the root directory, and
	// Work is WorkName, and whiteouts and the overlay's attributes can be made (see upper.go). New
	// duplicates it. The directory around Mountpoint must have mode 0700.
	Work int
	// Above is the path by which this process reaches that overlay, which AsOverlay mounts. AbovePaths are those by
	// which programs do; any that are missing cost them repeated calls.
	Above      string
	AbovePaths []string
	// NoSetID takes set-id bits away from every file that a caller makes or
	// changes: on the disk it belongs to another user (package idmap).
	NoSetID bool
}

// FS is one view. Create it with New, then Mount, then Wait or Serve.
type FS struct {
	cfg       Config
	guard     Guard
	cacheable CacheableGuard // the guard, if its answers may be remembered
	hider     HiddenRefuser
	mover     Mover // the guard, if it lists what is in a directory that moves
	nameless  UnlinkedGuard
	moves     moves
	keeper    Keeper // the guard, if it says what the kernel may keep
	writeOnce WriteOnce
	counter   ObjectCounter
	recorder  Recorder
	unread    bool // the guard lets everything be published; see SkipsPublish
	log       *slog.Logger
	rootDev   uint32
	identity  backing.Identity
	overlay   bool // backing is overlayfs: passthrough needs stack depth 2
	acls      bool // backing has access control lists; see acl.go
	timeout   time.Duration

	tree   *inode.Table
	layers overlay.Layers
	files  openfile.Table[*handle]
	lists  dirLists
	none   inode.Absents
	// formers are the names that files had, for an overlay above the view.
	formers inode.Formers
	calls   callReader
	uses    nameUses

	passthrough openfile.Passthrough

	suspended atomic.Pointer[suspension] // nil: changes are not held back

	echo       atomic.Pointer[[]*echoing] // nil: none is in progress
	standIns   atomic.Uint64              // inodes made by standIn
	echoTime   atomic.Int64               // nanoseconds; see echoTime
	echoes     echoes
	followed   followed
	unmounting atomic.Bool // it is being unmounted

	mu      sync.Mutex // mount state
	server  *conn.Conn
	served  <-chan struct{}
	began   time.Time
	fullAt  atomic.Int64        // since began; see reserve
	control *fusectl.Connection // of the mount, before any request is handled
	bg      sync.WaitGroup

	trimmer trimmer
	later   writeLater // copies that an overlay made

	watchers sync.WaitGroup // of callCtx, and of trim
	ends     endWatch
	dying    chan struct{} // closed when the connection is aborted
	dead     atomic.Bool   // dying is closed
}

// New prepares a view; nothing is mounted yet. Close releases what New took
// when Mount fails or is never called; it may be called again.
func New(cfg Config) (*FS, error) {
	switch {
	case len(cfg.Roots) == 0:
		return nil, fmt.Errorf("%w: no root", ErrConfig)
	case cfg.Guard == nil:
		return nil, fmt.Errorf("%w: no guard", ErrConfig)
	case cfg.Mountpoint == "":
		return nil, fmt.Errorf("%w: no mountpoint", ErrConfig)
	}
	abs, err := filepath.Abs(cfg.Mountpoint)
	if err != nil {
		return nil, fmt.Errorf("fusefs: mountpoint: %w", err)
	}
	cfg.Mountpoint = abs
	fs := &FS{cfg: cfg, guard: cfg.Guard, log: cfg.Log, timeout: cfg.Timeout, dying: make(chan struct{}), began: time.Now(),
		identity: backing.CurrentIdentity()}
	fs.cacheable, _ = cfg.Guard.(CacheableGuard)
	fs.mover, _ = cfg.Guard.(Mover)
	fs.nameless, _ = cfg.Guard.(UnlinkedGuard)
	fs.hider, _ = cfg.Guard.(HiddenRefuser)
	fs.keeper, _ = cfg.Guard.(Keeper)
	fs.writeOnce, _ = cfg.Guard.(WriteOnce)
	fs.counter, _ = cfg.Guard.(ObjectCounter)
	fs.recorder, _ = cfg.Guard.(Recorder)
	if g, ok := cfg.Guard.(SkipsPublish); ok {
		fs.unread = g.PublishesAll()
	}
	if fs.log == nil {
		fs.log = slog.Default()
	}
	fs.passthrough.Log = fs.log
	fs.echoTime.Store(int64(echoTime))
	if fs.timeout == 0 {
		fs.timeout = defaultTimeout
	}
	fs.timeout = max(fs.timeout, 0)
	limit := cfg.MaxHandles
	if limit <= 0 {
		var rl unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &rl); err != nil {
			return nil, fmt.Errorf("fusefs: read descriptor limit: %w", err)
		}
		limit = int(min(rl.Cur, 1<<20)) * 3 / 4
	}
	fs.files.Init(limit)
	fs.trimmer.above, fs.trimmer.least = trimAbove, trimAfter
	fs.lists.seed = maphash.MakeSeed()
	n := cfg.DirDescriptors
	if n <= 0 {
		n = dirDescriptors
	}
	fs.layers = overlay.Layers{
		Passthrough: &fs.passthrough, Rules: cfg.Guard, Shared: besideWork(cfg), Work: cfg.Work, Log: fs.log, Made: fs.counted,
	}
	if fs.cacheable != nil {
		fs.layers.Generations = fs.cacheable
	}
	if err := fs.layers.Start(cfg.Roots, n); err != nil {
		fs.Close()
		if errors.Is(err, overlay.ErrShared) {
			return nil, fmt.Errorf("%w: shared", ErrConfig)
		}
		return nil, err
	}
	st, errno := backing.StatAt(fs.layers.Main(), "")
	if errno == 0 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		errno = unix.ENOTDIR
	}
	if errno != 0 {
		fs.Close()
		return nil, fmt.Errorf("fusefs: root: %w", errno)
	}
	fs.overlay = fs.layers.Undated[0]
	if fs.acls = backing.HasACL(fs.layers.Main()); fs.acls {
		fs.log.Warn("backing directory with access control lists; in the view its groups have no rights",
			slog.String("path", cfg.Mountpoint))
	}
	k := fs.layers.Undated.KeyOf(0, &st)
	fs.rootDev = k.Dev
	if fs.tree, err = fs.newTree(k); err != nil {
		fs.Close()
		return nil, err
	}
	fs.layers.Tree = fs.tree
	fs.tree.Root.SetKeep(uint32(fs.keepPath("")))
	return fs, nil
}

// Close releases the descriptors. A mounted view must be unmounted first;
// Unmount closes by itself.
func (fs *FS) Close() {
	for _, h := range fs.files.TakeAll() { // still open when the mount went away
		h.node.Files.Remove(&h.Handle)
		h.Close()
	}
	if fs.tree != nil {
		for _, n := range fs.tree.All() {
			fs.unpin(n)
		}
	}
	fs.layers.Close()
}

// Passthrough reports whether the kernel granted passthrough and every registration of a
// file can be expected to succeed.
func (fs *FS) Passthrough() bool { return fs.passthrough.On() }
