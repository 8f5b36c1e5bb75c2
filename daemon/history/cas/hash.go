package cas

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Hash is the SHA-256 of a content, and the name of the object that has it.
type Hash [sha256.Size]byte

// Sum returns the hash of b.
func Sum(b []byte) Hash { return sha256.Sum256(b) }

// String returns 64 hexadecimal digits in lower case.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h is the zero value, which is the hash of no known content.
func (h Hash) IsZero() bool { return h == Hash{} }

// Parse reads what String returns, and nothing else: neither upper case nor another length.
func Parse(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("hash of %d characters: must have %d", len(s), 2*len(h))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("hash: %w", err)
	}
	if h.String() != s {
		return Hash{}, fmt.Errorf("hash %q: must be in lower case", s)
	}
	return h, nil
}

// MarshalText makes a hash a JSON string.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads it.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = Parse(string(b))
	return err
}

var (
	// ErrCorrupt reports an object whose content does not have the hash that it is named by.
	ErrCorrupt = errors.New("the stored content does not match its hash")
	// ErrMissing reports an object that the store does not have.
	ErrMissing = errors.New("the store does not have the content")
	// ErrFull reports that the store would exceed its bound.
	ErrFull = errors.New("the store has reached its bound")
)

// FullError is ErrFull with how much has no room: a batch would add Need bytes, or more if it was not measured.
type FullError struct{ Need, Used, Limit int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d bytes more than the %d that are there: %v of %d", e.Need, e.Used, ErrFull, e.Limit)
}

// Unwrap returns ErrFull.
func (e *FullError) Unwrap() error { return ErrFull }

// Missing is how many bytes must be removed so that the batch has room.
func (e *FullError) Missing() int64 { return max(e.Used+e.Need-e.Limit, 1) }
