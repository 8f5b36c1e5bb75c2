package fusefs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// load is one process's work in a tree, with a memory of what ought to be there.
type load struct {
	root  string
	r     *rand.Rand
	files map[string][]byte
	dirs  map[string]bool
}

// soak works below a directory for some seconds and then says what it left:
// path to hash, as JSON. What it reads meanwhile has to be what it wrote.
func soak(args []string) error {
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	l := &load{root: args[0], r: rand.New(rand.NewPCG(seed, 1)), files: map[string][]byte{}, dirs: map[string]bool{"": true}}
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); {
		if err := l.step(); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	sums := map[string]string{}
	for p, b := range l.files {
		if err := l.check(p); err != nil {
			return err
		}
		h := sha256.Sum256(b)
		sums[p] = hex.EncodeToString(h[:])
	}
	return json.NewEncoder(os.Stdout).Encode(sums)
}

func pickKey[V any](r *rand.Rand, m map[string]V) (string, bool) {
	keys := slices.Sorted(maps.Keys(m)) // so that a seed means the same again
	if len(keys) == 0 {
		return "", false
	}
	return keys[r.IntN(len(keys))], true
}

func (l *load) at(p string) string { return filepath.Join(l.root, p) }

func (l *load) bytes(most int) []byte {
	b := make([]byte, l.r.IntN(most))
	x := l.r.Uint64()
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

func (l *load) step() error {
	dir, _ := pickKey(l.r, l.dirs)
	name := filepath.Join(dir, "f"+strconv.Itoa(l.r.IntN(12)))
	file, some := pickKey(l.r, l.files)
	if !some || len(l.files) < 5 {
		return l.save(name)
	}
	switch l.r.IntN(14) {
	case 0, 1:
		return l.save(name)
	case 2:
		return l.change(file, os.O_RDWR, func(f *os.File, b []byte) ([]byte, error) {
			data, off := l.bytes(20000), l.r.IntN(len(b)+1)
			_, err := f.WriteAt(data, int64(off))
			return append(b[:off:off], append(data, b[min(len(b), off+len(data)):]...)...), err
		})
	case 3:
		return l.change(file, os.O_WRONLY|os.O_APPEND, func(f *os.File, b []byte) ([]byte, error) {
			data := l.bytes(3000)
			_, err := f.Write(data)
			return append(b[:len(b):len(b)], data...), err
		})
	case 4:
		n := l.r.IntN(len(l.files[file])*2 + 1)
		l.files[file] = append(l.files[file][:min(n, len(l.files[file])):min(n, len(l.files[file]))], make([]byte, max(0, n-len(l.files[file])))...)
		return os.Truncate(l.at(file), int64(n))
	case 5:
		return l.store(file)
	case 6:
		delete(l.files, file)
		return os.Remove(l.at(file))
	case 7:
		return l.moveDir(dir)
	case 8:
		if l.dirs[name] || l.files[name] != nil {
			return nil
		}
		delete(l.files, name)
		if len(l.dirs) < 8 {
			l.dirs[name] = true
			return os.Mkdir(l.at(name), 0o755)
		}
	case 9:
		return l.nameless(name)
	case 10:
		return l.list(dir)
	case 11:
		return l.change(file, os.O_WRONLY|os.O_TRUNC, func(f *os.File, _ []byte) ([]byte, error) {
			data := l.bytes(50000)
			_, err := f.Write(data)
			return data, err
		})
	}
	return l.check(file)
}

// save writes as editors do: another file, renamed over the old one.
func (l *load) save(name string) error {
	if l.dirs[name] {
		return nil
	}
	size := 30000
	if l.r.IntN(20) == 0 {
		size = 3 << 20
	}
	data := l.bytes(size)
	tmp := l.at(name) + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	l.files[name] = data
	return os.Rename(tmp, l.at(name))
}

func (l *load) change(name string, flags int, do func(*os.File, []byte) ([]byte, error)) error {
	f, err := os.OpenFile(l.at(name), flags, 0)
	if err != nil {
		return err
	}
	b, err := do(f, l.files[name])
	l.files[name] = b
	return errors.Join(err, f.Close())
}

func (l *load) store(name string) error {
	if len(l.files[name]) == 0 {
		return nil
	}
	return l.change(name, os.O_RDWR, func(f *os.File, b []byte) ([]byte, error) {
		m, err := unix.Mmap(int(f.Fd()), 0, len(b), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return b, err
		}
		i, v := l.r.IntN(len(b)), byte(l.r.Uint32())
		if m[i] != b[i] {
			return b, fmt.Errorf("%s: mapped byte %d is wrong", name, i)
		}
		b = slices.Clone(b)
		b[i], m[i] = v, v
		return b, unix.Munmap(m)
	})
}

func (l *load) moveDir(dir string) error {
	to := "g" + strconv.Itoa(l.r.IntN(9))
	if dir == "" || l.dirs[to] || strings.Contains(dir, "/") {
		return nil
	}
	moved := func(p string) (string, bool) {
		rest, ok := strings.CutPrefix(p+"/", dir+"/")
		return strings.TrimSuffix(to+"/"+rest, "/"), ok
	}
	for _, p := range slices.Collect(maps.Keys(l.dirs)) {
		if q, ok := moved(p); ok {
			delete(l.dirs, p)
			l.dirs[q] = true
		}
	}
	for _, p := range slices.Collect(maps.Keys(l.files)) {
		if q, ok := moved(p); ok {
			l.files[q] = l.files[p]
			delete(l.files, p)
		}
	}
	return os.Rename(l.at(dir), l.at(to))
}

func (l *load) nameless(name string) error {
	if l.dirs[name] || l.files[name] != nil {
		return nil
	}
	fd, err := unix.Open(l.at(filepath.Dir(name)), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("tmpfile: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	data := append(l.bytes(9000), 'x')
	_, err = f.Write(data)
	if err == nil {
		err = unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, l.at(name), unix.AT_SYMLINK_FOLLOW)
	}
	l.files[name] = data
	return errors.Join(err, f.Close())
}

func (l *load) list(dir string) error {
	var want []string
	for p := range l.dirs {
		if p != "" && filepath.Dir(p) == filepath.Clean(dir) {
			want = append(want, filepath.Base(p))
		}
	}
	for p := range l.files {
		if filepath.Dir(p) == filepath.Clean(dir) {
			want = append(want, filepath.Base(p))
		}
	}
	slices.Sort(want)
	es, err := os.ReadDir(l.at(dir))
	var got []string
	for _, e := range es {
		got = append(got, e.Name())
	}
	if !slices.Equal(want, got) && err == nil {
		err = fmt.Errorf("%q lists %q, not %q", dir, got, want)
	}
	return err
}

func (l *load) check(name string) error {
	b, err := os.ReadFile(l.at(name))
	if err == nil && !bytes.Equal(b, l.files[name]) {
		err = fmt.Errorf("%s: read %d bytes that are not the %d written", name, len(b), len(l.files[name]))
	}
	return err
}

// roam reads everything below a directory over and over. Others change it, so
// files may be gone, or be hidden and denied for a while; nothing else.
func roam(args []string) error {
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	expected := func(err error) bool {
		return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) ||
			errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EACCES)
	}
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); {
		err := filepath.WalkDir(args[0], func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				_, err = os.ReadFile(p)
			}
			if expected(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
