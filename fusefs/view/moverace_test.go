package view

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// between is a Locker that does something else, once, after the rules have
// allowed a move and before the move.
type between struct {
	page
	do *atomic.Pointer[func()]
}

func (b between) Acquire(ctx context.Context, r LockRequest) (fusefs.Ticket, error) {
	tk, err := b.page.Acquire(ctx, r)
	if r.Op == string(fusefs.OpRename) || r.Op == string(fusefs.OpExchange) {
		if f := b.do.Swap(nil); f != nil {
			(*f)()
		}
	}
	return tk, err
}

// A name made below a directory between the decision about its move and the move
// does not get to a place where the rules deny it; one that may be there does.
// The names are made by descriptor: a walk would wait for the move. (Right in
// the directory, and by a move from another one, Linux makes none meanwhile.)
func TestNoNameRidesAlongToADeniedPlace(t *testing.T) {
	needRoot(t)
	for how, made := range map[string]func(sub, other int, name string) error{
		"create": func(sub, _ int, n string) error {
			fd, err := unix.Openat(sub, n, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		},
		"mkdir":                 func(sub, _ int, n string) error { return unix.Mkdirat(sub, n, 0o700) },
		"mknod":                 func(sub, _ int, n string) error { return unix.Mknodat(sub, n, unix.S_IFIFO|0o600, 0) },
		"symlink":               func(sub, _ int, n string) error { return unix.Symlinkat("x", sub, n) },
		"link":                  func(sub, other int, n string) error { return unix.Linkat(other, "keep", sub, n, 0) },
		"rename":                func(sub, _ int, n string) error { return unix.Renameat(sub, "keep", sub, n) },
		"rename of a directory": func(sub, _ int, n string) error { return unix.Renameat(sub, "dir", sub, n) },
	} {
		for _, flags := range []uint{0, unix.RENAME_EXCHANGE} {
			for _, name := range []string{"secret", "harmless"} {
				t.Run(fmt.Sprintf("%s %s %d", how, name, flags), func(t *testing.T) {
					var do atomic.Pointer[func()]
					b := &book{held: map[string]string{}}
					a := mountedWith(t, b, "a", policy.Rules{Write: []string{"in/**", "out/**"}, Deny: []string{"out/**/secret*"}},
						map[string]string{"in/d/sub/keep": "k\n", "in/d/sub/dir/keep": "k\n", "in/e/keep": "k\n", "out/e/keep": "k\n"},
						func(c *Config) { c.Locker = between{page{b, "a"}, &do} })
					open := func(path string) int {
						fd, err := unix.Open(filepath.Join(a.mnt, path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
						require.NoError(t, err)
						t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
						return fd
					}
					in, out, sub, other := open("in"), open("out"), open("in/d/sub"), open("in/e")
					to := "d"
					if flags != 0 {
						to = "e"
					}
					done := make(chan error, 1)
					now := func() { done <- made(sub, other, name) }
					do.Store(&now)
					moved := unix.Renameat2(in, "d", out, to, flags)
					require.Len(t, done, 1)
					require.NoError(t, <-done, "the name is made in time")
					if name == "secret" {
						require.ErrorIs(t, moved, unix.EACCES)
					} else {
						require.NoError(t, moved)
						a.ok("test -e out/" + to + "/sub/harmless -o -L out/" + to + "/sub/harmless")
					}
					a.ok("test -z \"$(find out -name 'secret*')\"")
				})
			}
		}
	}
}
