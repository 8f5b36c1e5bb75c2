package pinned

import (
	"os"
	"strconv"
)

// DirPath is a path that leads to an open directory as long as it is open, in this process and in a child before it
// executes a program: for exec.Cmd.Dir and os.OpenRoot.
func DirPath(dir *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) }
