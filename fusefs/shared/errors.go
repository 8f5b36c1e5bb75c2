package shared

import "errors"

// Errors of this package.
var (
	// ErrContent says that a file is not what its name says.
	ErrContent = errors.New("shared: the content does not match the name")
	// ErrKind says that a file is none that can be shared.
	ErrKind = errors.New("shared: not a file that can be shared")
	// ErrFull says that a bound was reached.
	ErrFull = errors.New("shared: too many removed names are remembered")
)
