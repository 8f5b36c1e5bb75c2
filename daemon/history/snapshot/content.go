package snapshot

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// read reads the content of a file or a link.
func (s *Scan) read(e *Entry) error {
	if s.Sink == nil {
		return nil
	}
	if e.Kind == Link {
		f, err := openBelow(s.Root, e.Path, unix.O_PATH)
		if err != nil {
			return err
		}
		defer f.Close()
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(f.Fd()), "", to)
		if err != nil {
			return err
		}
		e.Size = int64(n)
		e.Hash, err = s.Sink.PutBytes(to[:n])
		return err
	}
	f, err := openBelow(s.Root, e.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer f.Close()
	for range tries {
		var before, after unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &before); err != nil {
			return err
		}
		if before.Mode&unix.S_IFMT != unix.S_IFREG {
			return fs.ErrInvalid
		}
		if s.MaxBytes > 0 && before.Size > s.MaxBytes {
			return ErrTooLarge
		}
		var size int64
		if e.Hash, size, err = s.Sink.Put(f); err != nil {
			return err
		}
		if err := s.attrs(f, e); err != nil {
			return err
		}
		if err := unix.Fstat(int(f.Fd()), &after); err != nil {
			return err
		}
		if before.Ctim == after.Ctim && before.Mtim == after.Mtim && after.Size == size {
			e.Size, e.Mode = size, after.Mode&0o7777
			s.note(f, e, &after)
			return nil
		}
	}
	return ErrUnsteady
}
