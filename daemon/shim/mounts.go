package shim

import (
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// mountedBy reports whether the topmost mount at path has the given source. It reads the kernel's
// table (proc_pid_mountinfo(5)): a stat of a dead FUSE mount fails. The table is that of this
// thread: another one of this process may be in a sandbox's mount namespace.
func mountedBy(path, source string) (bool, error) {
	at, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return false, fmt.Errorf("read mounts: %w", err)
	}
	if len(at) == 0 {
		return false, nil
	}
	top := at[len(at)-1]
	return top.Source == source && (strings.HasPrefix(top.FSType, "fuse") || top.FSType == "overlay"), nil
}
