package fusefs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// compare runs the same work on the native file system and on a view of it,
// turn and turn about, and reports the median of the ratios. prepare returns
// one unit of work in a directory.
func compare(b *testing.B, prepare func(b *testing.B, dir string) func()) {
	v := mountView(b)
	var work [2]func()
	for i, dir := range []string{v.raw("native"), v.raw("view")} {
		require.NoError(b, os.Mkdir(dir, 0o755))
		if i == 1 {
			dir = v.in("view")
		}
		work[i] = prepare(b, dir)
		work[i]() // warm
	}
	const rounds = 9
	per := max(1, b.N/rounds)
	var ratios []float64
	var total [2]time.Duration
	b.ResetTimer()
	for r := range rounds {
		var took [2]time.Duration
		for _, i := range []int{r % 2, 1 - r%2} {
			start := time.Now()
			for range per {
				work[i]()
			}
			took[i] = time.Since(start)
			total[i] += took[i]
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	b.StopTimer()
	slices.Sort(ratios)
	b.ReportMetric(ratios[rounds/2], "x-native")
	b.ReportMetric(float64(total[0].Nanoseconds())/float64(rounds*per), "native-ns/op")
	b.ReportMetric(float64(total[1].Nanoseconds())/float64(rounds*per), "view-ns/op")
	b.ReportMetric(0, "ns/op") // the sum of both says nothing
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkOpenClose(b *testing.B) {
	for name, flags := range map[string]int{"read": unix.O_RDONLY, "write": unix.O_RDWR} {
		b.Run(name, func(b *testing.B) {
			compare(b, func(b *testing.B, dir string) func() {
				f := filepath.Join(dir, "f")
				must(b, os.WriteFile(f, []byte("x"), 0o644))
				return func() { must(b, openClose(f, flags, 0)) }
			})
		})
	}
}

func BenchmarkStat(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		f := filepath.Join(dir, "f")
		must(b, os.WriteFile(f, []byte("x"), 0o644))
		var st unix.Stat_t
		return func() { must(b, unix.Lstat(f, &st)) }
	})
}

func BenchmarkReaddir(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		for i := range 1000 {
			must(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644))
		}
		return func() {
			_, err := os.ReadDir(dir)
			must(b, err)
		}
	})
}

func BenchmarkCreateUnlink(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		f := filepath.Join(dir, "f")
		return func() {
			must(b, openClose(f, unix.O_CREAT|unix.O_WRONLY, 0o644))
			must(b, unix.Unlink(f))
		}
	})
}

func BenchmarkReadSmallFiles(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		const files = 200
		for i := range files {
			must(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 4000), 0o644))
		}
		return func() {
			for i := range files {
				_, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
				must(b, err)
			}
		}
	})
}

const benchFile = 64 << 20

func BenchmarkSequentialRead(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		f := filepath.Join(dir, "f")
		must(b, os.WriteFile(f, make([]byte, benchFile), 0o644))
		buf := make([]byte, 1<<20)
		return func() {
			fd, err := unix.Open(f, unix.O_RDONLY, 0)
			must(b, err)
			for n := 1; n > 0; {
				n, err = unix.Read(fd, buf)
				must(b, err)
			}
			must(b, unix.Close(fd))
		}
	})
}

func BenchmarkSequentialWrite(b *testing.B) {
	compare(b, func(b *testing.B, dir string) func() {
		f := filepath.Join(dir, "f")
		buf := make([]byte, 1<<20)
		return func() {
			fd, err := unix.Open(f, unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY, 0o644)
			must(b, err)
			for range benchFile / len(buf) {
				_, err = unix.Write(fd, buf)
				must(b, err)
			}
			must(b, unix.Close(fd))
		}
	})
}

func BenchmarkRandom4k(b *testing.B) {
	for _, kind := range []string{"read", "write"} {
		b.Run(kind, func(b *testing.B) {
			compare(b, func(b *testing.B, dir string) func() {
				f := filepath.Join(dir, "f")
				must(b, os.WriteFile(f, make([]byte, benchFile), 0o644))
				fd, err := unix.Open(f, unix.O_RDWR, 0)
				must(b, err)
				b.Cleanup(func() { unix.Close(fd) })
				buf := make([]byte, 4096)
				r := rand.New(rand.NewPCG(1, 2))
				return func() {
					off := r.Int64N(benchFile/4096) * 4096
					if kind == "read" {
						_, err = unix.Pread(fd, buf, off)
					} else {
						_, err = unix.Pwrite(fd, buf, off)
					}
					must(b, err)
				}
			})
		})
	}
}
