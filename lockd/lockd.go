package lockd

import (
	"errors"
	"time"

	"polis/lockd/table"
)

// The words of package table, so that users of the service need only import lockd.
type (
	Lease         = table.Lease
	Filter        = table.Filter
	Mode          = table.Mode
	Awaiter       = table.Awaiter
	ConflictError = table.ConflictError
	Until         = table.Until
)

// The two modes of a lease.
const (
	Read  = table.Read
	Write = table.Write
)

// Exclusive is the key of the repository-wide lock; it conflicts with every ref key.
const Exclusive = table.Exclusive

// Sentinels of the table that Server and Client return.
var (
	ErrInvalid = table.ErrInvalid
	ErrLimit   = table.ErrLimit
	ErrNotHeld = table.ErrNotHeld
)

// ErrUnavailable: no lease was granted because the lock server cannot be reached, does not answer
// in time, or still waits for earlier holders. It does not mean that the path is held.
var ErrUnavailable = errors.New("lock server unavailable")

// ErrClosed: the client or server was closed.
var ErrClosed = errors.New("lockd is closed")

// FileKey is the key of a repository path; RefKey that of a ref given by its full name. File
// names that look like a ref key get another spelling, so that touching a file cannot take a ref
// lock.
func FileKey(path string) string { return table.FileKey(path) }

// FilePath is the path of the file of which FileKey made the key, for display.
func FilePath(key string) string { return table.FilePath(key) }

// RefKey is the key of a ref, given by its full name ("refs/heads/main").
func RefKey(ref string) string { return table.RefKey(ref) }

// Defaults of Server and Client.
const (
	DefaultStaleTimeout = 30 * time.Second
	DefaultGrace        = 5 * time.Second
	DefaultWait         = 3 * time.Second
	DefaultHold         = 30 * time.Second
	DefaultBound        = 2 * time.Second
	DefaultHeartbeat    = 5 * time.Second
	DefaultExplicitMax  = 10 * time.Minute
)
