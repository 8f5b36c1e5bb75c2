//go:build seccomp

package sandbox

import (
	"strconv"

	libseccomp "github.com/seccomp/libseccomp-golang"
)

// callName is the name of a call of this machine's own word size. The filter reports no others.
func callName(nr int) string {
	name, err := libseccomp.ScmpSyscall(nr).GetName()
	if err != nil {
		return "call " + strconv.Itoa(nr)
	}
	return name
}
