package client

import (
	"bufio"
	"io"
	"os"
	"strings"
)

// maxSockets bounds what is read of the kernel's list of sockets, in bytes.
const maxSockets = 16 << 20

// listening is the flag of a socket that listens (SO_ACCEPTCON) in the kernel's list (proc_net(5), unix).
const listening = "00010000"

// listens reports whether a process listens on a socket that was bound to this path, which may be gone: list is the
// kernel's list of the sockets of this network namespace.
func listens(list, path string) bool {
	f, err := os.Open(list) //nolint:forbidigo // the kernel's
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxSockets))
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path
		before, found := strings.CutSuffix(lines.Text(), " "+path)
		if fields := strings.Fields(before); found && len(fields) == 7 && fields[3] == listening {
			return true
		}
	}
	return false
}
