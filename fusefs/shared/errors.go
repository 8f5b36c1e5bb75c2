package shared

import "errors"

// Errors of this package.
var (
	// ErrContent reports that the content of a file does not match its name.
	ErrContent = errors.New("shared: the content does not match the name")
	// ErrKind reports that a file is of a kind that cannot be shared.
	ErrKind = errors.New("shared: not a file that can be shared")
	// ErrFull reports that a bound was reached.
	ErrFull = errors.New("shared: too many removed names are remembered")
)
