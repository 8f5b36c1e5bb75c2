package nested

import (
	"fmt"
	"io/fs"
	"os"
)

// Borrowable returns the refs of a git directory whose objects others can borrow: all that they reach is in its own
// directory of objects. Else the error is ErrOdd.
func Borrowable(dir *os.File) (map[string]string, error) {
	for name, why := range map[string]string{"objects/info/alternates": "it borrows objects itself", "shallow": "it is shallow", "reftable": "it has a reftable"} {
		switch t, err := kind(dir, name); {
		case err != nil:
			return nil, err
		case t != fs.ModeIrregular:
			return nil, fmt.Errorf("%s: %w", why, ErrOdd)
		}
	}
	if t, err := kind(dir, "objects"); err != nil || !t.IsDir() {
		return nil, fmt.Errorf("it has no objects: %w", ErrOdd)
	}
	refs := map[string]string{}
	packed, err := readPacked(dir, refs)
	if err != nil {
		return nil, err
	}
	return refs, readLoose(dir, "refs", 0, refs, packed)
}
