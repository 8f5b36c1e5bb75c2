//go:build seccomp

package sandbox

import (
	"strconv"

	libseccomp "github.com/seccomp/libseccomp-golang"
)

// callName is what a call of this machine's own word size is called. The filter
// asks about no others.
func callName(nr int) string {
	name, err := libseccomp.ScmpSyscall(nr).GetName()
	if err != nil {
		return "call " + strconv.Itoa(nr)
	}
	return name
}
