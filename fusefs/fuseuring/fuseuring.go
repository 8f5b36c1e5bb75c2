package fuseuring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

var parameter = "/sys/module/fuse/parameters/enable_uring"

// ErrNone reports that this kernel has no such switch (it came with Linux 6.14, and
// is there when the fuse module is).
var ErrNone = errors.New("this kernel has no FUSE requests by io_uring")

// Enabled reports whether the kernel offers requests by io_uring.
func Enabled() (bool, error) {
	b, err := os.ReadFile(parameter)
	if errors.Is(err, fs.ErrNotExist) {
		return false, ErrNone
	}
	if err != nil {
		return false, fmt.Errorf("read the switch for FUSE requests by io_uring: %w", err)
	}
	return string(bytes.TrimSpace(b)) == "Y", nil
}

// SetEnabled turns the switch on or off and returns what it was before.
func SetEnabled(on bool) (before bool, err error) {
	before, err = Enabled()
	if err != nil || before == on {
		return before, err
	}
	value := "N"
	if on {
		value = "Y"
	}
	if err := os.WriteFile(parameter, []byte(value), 0); err != nil {
		return before, fmt.Errorf("turn the switch for FUSE requests by io_uring: %w", err)
	}
	return before, nil
}
