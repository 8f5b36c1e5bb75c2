package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/conn"
)

// capabilities are those of a view without passthrough: the kernel caches what it has read.
const capabilities = fuse.CAP_ASYNC_READ | fuse.CAP_BIG_WRITES | fuse.CAP_MAX_PAGES | fuse.CAP_READDIRPLUS |
	fuse.CAP_PARALLEL_DIROPS | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_OVER_IO_URING

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nullfs: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("give a directory and where to mount what is in it")
	}
	t, err := read(args[0])
	if err != nil {
		return err
	}
	c, err := conn.Mount(t, conn.Options{Mountpoint: args[1], Subtype: "nullfs", MaxWrite: 1 << 20, MaxBackground: 64, Capabilities: capabilities})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		_ = unix.Unmount(args[1], unix.MNT_DETACH) // EINVAL: it is no longer mounted
	})()
	return c.Serve()
}
