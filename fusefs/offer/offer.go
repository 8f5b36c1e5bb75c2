// Package offer is the kernel's switch for FUSE requests by io_uring: a
// parameter of the fuse module, off unless somebody has turned it on. It is read
// when a file system is mounted; what is mounted then keeps what it has.
//
// The kernel only offers: file systems that do not ask, which is nearly all, go
// on with /dev/fuse.
package offer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const parameter = "/sys/module/fuse/parameters/enable_uring"

// ErrNone says that this kernel has no such switch (it came with Linux 6.14, and
// is there when the fuse module is).
var ErrNone = errors.New("this kernel has no FUSE requests by io_uring")

// Given says whether the kernel offers it.
func Given() (bool, error) {
	b, err := os.ReadFile(parameter)
	if errors.Is(err, fs.ErrNotExist) {
		return false, ErrNone
	}
	if err != nil {
		return false, fmt.Errorf("read the switch for FUSE requests by io_uring: %w", err)
	}
	return string(bytes.TrimSpace(b)) == "Y", nil
}

// Set turns it on or off and says how it was before.
func Set(on bool) (before bool, err error) {
	before, err = Given()
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
