package cage

import (
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound what one program may use (setrlimit(2)). Zero is no bound. It
// leaves no core file.
type Limits struct {
	AddressSpace uint64        // bytes
	Data         uint64        // bytes it allocates; files it maps to read do not count
	FileSize     uint64        // bytes of each file it writes
	CPU          time.Duration // of the processor
}

// setter sets limits and becomes the program. Only a process itself, and not a
// parent of another user, can set them without CAP_SYS_RESOURCE.
const setter = "prlimit"

// prepend has the program started by setter.
func (l *Limits) prepend(cmd *exec.Cmd) error {
	path, err := exec.LookPath(setter)
	if err != nil {
		return fmt.Errorf("%w: limits are set by prlimit(1) of util-linux: %w", ErrUnavailable, err)
	}
	args := []string{path}
	for _, r := range []struct {
		flag     string
		resource int
		value    uint64
		set      bool
	}{
		{"--core=", unix.RLIMIT_CORE, 0, true},
		{"--as=", unix.RLIMIT_AS, l.AddressSpace, l.AddressSpace > 0},
		{"--data=", unix.RLIMIT_DATA, l.Data, l.Data > 0},
		{"--fsize=", unix.RLIMIT_FSIZE, l.FileSize, l.FileSize > 0},
		{"--cpu=", unix.RLIMIT_CPU, uint64(l.CPU / time.Second), l.CPU > 0},
	} {
		if !r.set {
			continue
		}
		// A limit that is lower already stays: raising it needs CAP_SYS_RESOURCE.
		var has unix.Rlimit
		if err := unix.Getrlimit(r.resource, &has); err != nil {
			return fmt.Errorf("start a program in a cage: getrlimit: %w", err)
		}
		args = append(args, r.flag+strconv.FormatUint(min(r.value, has.Max), 10))
	}
	cmd.Args = append(append(args, "--", cmd.Path), cmd.Args[1:]...)
	cmd.Path = path
	return nil
}
