package branches

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxRefs bounds the refs of an agent that are read at once, and maxRef what is read of one, in
// bytes: the agent writes them.
const (
	maxRefs = 32
	maxRef  = 256
)

// Fingerprint is a fingerprint of the tip of an agent's branch, of its HEAD, and of the refs that it
// made, in the shared repository dir. It runs no git, and follows no link out of the repository.
// What cannot be read counts as empty.
func Fingerprint(dir, agent, tip string, owned []string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, tip) //nolint:errcheck // it never fails
	root, err := os.OpenRoot(dir)
	if err != nil {
		return h.Sum64()
	}
	defer root.Close()
	for _, name := range append([]string{path.Join("worktrees", agent, "HEAD")}, owned[:min(len(owned), maxRefs)]...) {
		_, _ = fmt.Fprintf(h, "\x00%s\x00%s", name, readRef(root, name)) //nolint:errcheck // it never fails
	}
	return h.Sum64()
}

// readRef returns the beginning of a file below root; empty if it is not a regular one.
func readRef(root *os.Root, name string) []byte {
	// O_NONBLOCK: opening a FIFO must not block.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRef))
	if err != nil {
		return nil
	}
	return b
}
