package work

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	block = 1 << 20
	page  = 4096
)

// fill returns the data to write: not zeros, and the same for every column.
func fill() []byte {
	b := make([]byte, block)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// with opens the request's file, calls f with its descriptor and closes it.
func with(r Request, flags int, f func(fd int) error) error {
	p := filepath.Join(r.Dir, r.Name)
	fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("open %s: %w", p, err)
	}
	defer unix.Close(fd)
	return f(fd)
}

func seqWrite(_ *worker, r Request, measure func(func() error) error) (int, error) {
	data := fill()
	return int(r.Size / block), measure(func() error {
		return with(r, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, func(fd int) error {
			for at := int64(0); at < r.Size; at += block {
				if n, err := unix.Write(fd, data); err != nil || n != block {
					return fmt.Errorf("write at %d: %d bytes: %w", at, n, orShort(err))
				}
			}
			return nil
		})
	})
}

func orShort(err error) error {
	if err == nil {
		return io.ErrShortWrite
	}
	return err
}

func seqRead(_ *worker, r Request, measure func(func() error) error) (int, error) {
	data := make([]byte, block)
	var sum int64
	err := measure(func() error {
		return with(r, unix.O_RDONLY, func(fd int) error {
			for {
				n, err := unix.Read(fd, data)
				if n <= 0 || err != nil {
					return err
				}
				sum += int64(n)
			}
		})
	})
	if err == nil && sum != r.Size {
		err = fmt.Errorf("read %d bytes of %d", sum, r.Size)
	}
	return int(sum / block), err
}

// mmapWrite stores to every page of a shared mapping of a new file.
func mmapWrite(_ *worker, r Request, measure func(func() error) error) (int, error) {
	data := fill()
	return int(r.Size / block), measure(func() error {
		return with(r, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, func(fd int) error {
			if err := unix.Ftruncate(fd, r.Size); err != nil {
				return fmt.Errorf("ftruncate: %w", err)
			}
			m, err := unix.Mmap(fd, 0, int(r.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return fmt.Errorf("mmap: %w", err)
			}
			for at := 0; at < len(m); at += block {
				copy(m[at:], data)
			}
			return unix.Munmap(m)
		})
	})
}

// random reads or writes random pages of an existing file, r.N times.
func random(_ *worker, r Request, measure func(func() error) error) (int, error) {
	data := fill()[:page]
	rnd := rand.New(rand.NewPCG(3, 4))
	pages := r.Size / page
	flags := unix.O_RDONLY
	if r.Write {
		flags = unix.O_RDWR
	}
	at4k := unix.Pread
	if r.Write {
		at4k = unix.Pwrite
	}
	return r.N, with(r, flags, func(fd int) error {
		return measure(func() error {
			for range r.N {
				at := rnd.Int64N(pages) * page
				if n, err := at4k(fd, data, at); err != nil || n != page {
					return fmt.Errorf("page at %d: %d bytes: %w", at, n, orShort(err))
				}
			}
			return nil
		})
	})
}
