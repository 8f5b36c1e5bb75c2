package fuseuring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// EnableMarked turns the switch on. The file mark then records that this program did it, so that
// RestoreMarked turns it off: a switch that was on already has no mark, and stays on.
func EnableMarked(mark string) error {
	before, err := Enabled()
	if err != nil || before {
		return err
	}
	// The mark comes first: a crash in between turns off what is off.
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("record that FUSE requests by io_uring were turned on: %w", err)
	}
	if _, err := SetEnabled(true); err != nil {
		return errors.Join(err, os.Remove(mark))
	}
	return nil
}

// RestoreMarked turns the switch off if mark exists, and removes mark.
func RestoreMarked(mark string) error {
	if _, err := os.Stat(mark); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("turn off FUSE requests by io_uring: %w", err)
	}
	if _, err := SetEnabled(false); err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	return os.Remove(mark)
}
