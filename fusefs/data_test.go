package fusefs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"polis/fusefs/openfile"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kernelAtLeast reports whether the running kernel has a feature's version.
func kernelAtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	require.NoError(t, err)
	return a > major || a == major && b >= minor
}

func TestDataGoesThroughPassthrough(t *testing.T) {
	if !kernelAtLeast(t, 6, 9) {
		t.Skip("passthrough came with Linux 6.9")
	}
	v := mountView(t)
	require.True(t, v.fs.Passthrough())
	f, err := os.Create(v.in("f"))
	require.NoError(t, err)
	defer f.Close()
	h := onlyHandle(t, v)
	require.True(t, h.node.Files.Passthrough())
	// The server's own descriptor could not have done this: it is of another file.
	fd, err := unix.FcntlInt(uintptr(h.FD), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	full, err := os.Open("/dev/full")
	require.NoError(t, err)
	defer full.Close()
	require.NoError(t, unix.Dup3(int(full.Fd()), h.FD, unix.O_CLOEXEC))
	_, err = f.WriteString("hello")
	require.NoError(t, err)
	require.NoError(t, unix.Dup3(fd, h.FD, unix.O_CLOEXEC))
	unix.Close(fd)
	require.Equal(t, "hello", content(t, v.raw("f")))
	require.Equal(t, "hello", content(t, v.in("f")))
	require.True(t, v.fs.Passthrough(), "nothing failed on the way")
}

func onlyHandle(t *testing.T, v *view) *handle {
	t.Helper()
	open := v.fs.files.All()
	require.Len(t, open, 1)
	return open[0]
}

// The kernel answers EIO when cached and passthrough opens of one inode meet.
// Whatever is open already, another open must work and see the same bytes.
func TestEveryMixOfOpensSeesTheSameBytes(t *testing.T) {
	flags := map[string]int{
		"r": unix.O_RDONLY, "w": unix.O_WRONLY, "rw": unix.O_RDWR, "a": unix.O_WRONLY | unix.O_APPEND,
		"r direct": unix.O_RDONLY | unix.O_DIRECT, "rw direct": unix.O_RDWR | unix.O_DIRECT, "rw sync": unix.O_RDWR | unix.O_SYNC,
	}
	v := mountView(t)
	for a, fa := range flags {
		for b, fb := range flags {
			for _, size := range []int{4096, openfile.SmallFile + 4096} {
				name := fmt.Sprint(a, "+", b, " ", size)
				want := bytes.Repeat([]byte{'x'}, size)
				require.NoError(t, os.WriteFile(v.raw(name), want, 0o644))
				first, err := unix.Open(v.in(name), fa|unix.O_CLOEXEC, 0)
				require.NoError(t, err, name)
				second, err := unix.Open(v.in(name), fb|unix.O_CLOEXEC, 0)
				require.NoError(t, err, name)
				for i, fd := range []int{first, second} {
					fl := []int{fa, fb}[i]
					if fl&unix.O_ACCMODE != unix.O_RDONLY {
						block := alignedBlock(byte('0' + i))
						n, err := unix.Pwrite(fd, block, 0)
						require.NoError(t, err, name)
						require.Equal(t, 4096, n)
						if fl&unix.O_APPEND != 0 {
							want = append(want, block...)
						} else {
							copy(want, block)
						}
					}
				}
				require.Equal(t, want, []byte(content(t, v.in(name))), name)
				unix.Close(first)
				unix.Close(second)
				require.Equal(t, want, []byte(content(t, v.in(name))), name)
				require.Equal(t, want, []byte(content(t, v.raw(name))), name)
			}
		}
	}
}

// alignedBlock is a page that O_DIRECT accepts.
func alignedBlock(c byte) []byte {
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	for i := range m {
		m[i] = c
	}
	return m
}

// Pages kept from a reading open must not outlive a change.
func TestCachedPagesNeverGoStale(t *testing.T) {
	for name, opt := range map[string]func(*Config){"hybrid": func(*Config) {}, "server only": func(c *Config) { c.NoPassthrough = true }} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, opt)
			write(t, v.in("f"), "first")
			for i := range 50 {
				require.Equal(t, content(t, v.raw("f")), content(t, v.in("f")))
				text := "round " + strconv.Itoa(i)
				switch i % 5 {
				case 0:
					write(t, v.in("f"), text)
				case 1:
					require.NoError(t, os.Truncate(v.in("f"), 3))
					text = content(t, v.raw("f"))
				case 2:
					write(t, v.in("g"), text)
					require.NoError(t, os.Rename(v.in("g"), v.in("f")))
				case 3:
					f, err := os.OpenFile(v.in("f"), os.O_RDWR|os.O_APPEND, 0)
					require.NoError(t, err)
					_, err = f.WriteString(text)
					require.NoError(t, err)
					require.NoError(t, f.Close())
					text = content(t, v.raw("f"))
				case 4: // behind the view, as a restore by the daemon would
					write(t, v.raw("f"), text)
					v.fs.InvalidatePath("f")
				}
				require.Equal(t, text, content(t, v.in("f")), "round %d", i)
			}
		})
	}
}

func TestManyFilesTakeFewDescriptors(t *testing.T) {
	v := mountView(t, func(c *Config) { c.DirDescriptors = 64 })
	const dirs, files = 200, 50
	for d := range dirs {
		require.NoError(t, os.Mkdir(v.raw(strconv.Itoa(d)), 0o755))
		for f := range files {
			write(t, v.raw(strconv.Itoa(d), strconv.Itoa(f)), "x")
		}
	}
	before := descriptors(t)
	out, err := exec.Command("find", v.mnt, "-type", "f", "-size", "1c").Output()
	require.NoError(t, err)
	require.Equal(t, dirs*files, strings.Count(string(out), "\n"))
	out, err = exec.Command("grep", "-rlF", "x", v.mnt).Output()
	require.NoError(t, err)
	require.Equal(t, dirs*files, strings.Count(string(out), "\n"))
	require.Greater(t, len(v.fs.tree.All()), dirs*files/2, "the kernel knows them")
	require.LessOrEqual(t, v.fs.layers.Descriptors(), 64)
	require.Less(t, descriptors(t)-before, 100)
}

func descriptors(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(es)
}

func TestTooManyOpenFilesAreTheCallersProblem(t *testing.T) {
	full := make(chan int, 100)
	v := mountView(t, func(c *Config) { c.MaxHandles, c.OnFull = 4, func(_ Caller, limit int) { full <- limit } })
	write(t, v.raw("f"), "x")
	var open []int
	for {
		fd, err := unix.Open(v.in("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, unix.ENFILE)
			break
		}
		open = append(open, fd)
	}
	require.Len(t, open, 4)
	require.ErrorIs(t, openClose(v.in("new"), unix.O_CREAT|unix.O_RDWR, 0o600), unix.ENFILE)
	require.NoFileExists(t, v.raw("new"))
	require.Equal(t, 4, <-full, "it is reported")
	for _, fd := range open {
		unix.Close(fd)
	}
	require.Eventually(t, func() bool { return openClose(v.in("f"), unix.O_RDWR, 0) == nil }, 30*time.Second, time.Millisecond)
}

// Names that stay are listed exactly once, however much comes and goes while
// the directory is read.
func TestListingsAreStableUnderChange(t *testing.T) {
	for name, opt := range map[string]func(*Config){"kept": func(*Config) {}, "nothing cached": func(c *Config) { c.Timeout = -1 }} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, opt)
			const stay = 700
			for i := range stay {
				write(t, v.raw(fmt.Sprint("stay", i)), "")
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					p := v.in(fmt.Sprint("come", i%50))
					_ = os.WriteFile(p, nil, 0o644)
					_ = os.Remove(p)
				}
			})
			for range 5 {
				seen := map[string]int{}
				d, err := os.Open(v.mnt)
				require.NoError(t, err)
				for {
					names, err := d.Readdirnames(7)
					for _, n := range names {
						seen[n]++
					}
					if err != nil {
						break
					}
				}
				require.NoError(t, d.Close())
				for i := range stay {
					require.Equal(t, 1, seen[fmt.Sprint("stay", i)])
				}
			}
			close(stop)
			wg.Wait()
			require.NoError(t, os.RemoveAll(v.in("x")))
			es, err := os.ReadDir(v.mnt)
			require.NoError(t, err)
			require.Len(t, es, stay)
		})
	}
}

// Everybody works in one tree at once; what the view says at the end is what
// the disk says.
func TestManyWorkersAtOnce(t *testing.T) {
	v := mountView(t, func(c *Config) { c.DirDescriptors = 8 })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			name := func() string { return v.in(fmt.Sprint("d", r.IntN(3)), fmt.Sprint("n", r.IntN(6))) }
			for range 400 {
				a, b := name(), name()
				switch r.IntN(10) {
				case 0:
					_ = os.MkdirAll(v.in(fmt.Sprint("d", r.IntN(3))), 0o755)
				case 1, 2, 3:
					_ = os.WriteFile(a, []byte(a), 0o644)
				case 4:
					_ = os.Rename(a, b)
				case 5:
					_ = os.Link(a, b)
				case 6:
					_ = os.Remove(a)
				case 7:
					_, _ = os.ReadFile(a)
				case 8:
					_ = os.Chmod(a, 0o600)
				case 9:
					_ = os.Rename(v.in(fmt.Sprint("d", r.IntN(3))), v.in(fmt.Sprint("d", r.IntN(3))))
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, snapshotTree(t, v.back), snapshotTree(t, v.mnt))
}
