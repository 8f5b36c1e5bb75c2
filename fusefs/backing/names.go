package backing

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ReadDir reads a whole directory, without . and ..
func ReadDir(dir int) ([]fuse.DirEntry, syscall.Errno) {
	fd, e := OpenAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if e != 0 {
		return nil, e
	}
	defer Close(fd)
	var out []fuse.DirEntry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, Errno(err)
		}
		if n == 0 {
			return out, 0
		}
		for b := buf[:n]; len(b) > 0; {
			var en fuse.DirEntry
			size := en.Parse(b)
			b = b[size:]
			if en.Name == "." || en.Name == ".." {
				continue
			}
			if en.Mode == 0 { // a file system that reports no types
				st, e := StatAt(fd, en.Name)
				if e != 0 {
					continue
				}
				en.Mode = uint32(st.Mode) & unix.S_IFMT
			}
			out = append(out, en)
		}
	}
}
