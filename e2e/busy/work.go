package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// files does the calls of an editor and a build, once.
func (w *work) files(i int) {
	a := filepath.Join(w.dir, fmt.Sprintf("f%d", i%40))
	b := a + "-moved"
	text := []byte(fmt.Sprintf("round %d\n", i))
	var f *os.File
	w.try("create", a, func() (err error) { f, err = os.Create(a); return err })
	if f == nil {
		return
	}
	w.try("write", a, func() error { _, err := f.Write(text); return err })
	w.try("stat", a, func() error { _, err := f.Stat(); return err })
	w.try("close", a, f.Close)
	w.try("rename", a, func() error { return os.Rename(a, b) })
	w.try("chmod", b, func() error { return os.Chmod(b, 0o600) })
	w.try("read", b, func() error {
		got, err := os.ReadFile(b)
		if err == nil && !bytes.Equal(got, text) {
			err = fmt.Errorf("has %q, want %q", got, text)
		}
		return err
	})
	w.try("truncate", b, func() error { return os.Truncate(b, 3) })
	w.try("link", b, func() error { return os.Link(b, a) })
	w.try("remove", a, func() error { return os.Remove(a) })
	if i%7 == 0 {
		w.try("remove", b, func() error { return os.Remove(b) })
		w.try("readdir", w.dir, func() error { _, err := os.ReadDir(w.dir); return err })
	}
	time.Sleep(w.pause)
}

// hold writes line after line to a file that stays open.
func (w *work) hold() func(int) {
	var f *os.File
	path := filepath.Join(w.dir, "held.txt")
	return func(i int) {
		if f == nil {
			if !w.try("open", path, func() (err error) {
				f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
				return err
			}) {
				return
			}
		}
		if w.try("append", path, func() error { _, err := fmt.Fprintf(f, "line %d\n", i); return err }) {
			w.Lines++
		}
		if i%50 == 49 {
			w.try("fsync", path, f.Sync)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// fresh uses a new name, which needs a new lease.
func (w *work) fresh(i int) {
	dir := filepath.Join(w.dir, "new", fmt.Sprint(i/200))
	if i%200 == 0 {
		w.try("mkdir", dir, func() error { return os.MkdirAll(dir, 0o755) })
	}
	path := filepath.Join(dir, fmt.Sprint(i))
	if w.try("new", path, func() error { return os.WriteFile(path, []byte("new\n"), 0o644) }) {
		w.New++
	}
	time.Sleep(20 * time.Millisecond)
}

func (w *work) git(i int) {
	// Without the files that the others rename meanwhile: git fails on those on any file system.
	for _, args := range [][]string{{"add", "-A", filepath.Join(w.dir, "new")}, {"commit", "-q", "--allow-empty", "-m", fmt.Sprint("round ", i)}} {
		w.try("git "+args[0], w.dir, func() error {
			out, err := exec.Command("git", args...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	w.Commits++
	for range 20 {
		if !w.ended() {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// print numbers lines of output, so that they can be counted.
func (w *work) print(i int) {
	w.try("print", "stdout", func() error { _, err := fmt.Printf("out %d\n", i); return err })
	w.Printed++
	time.Sleep(10 * time.Millisecond)
}

// serve echoes.
func (w *work) serve() error {
	if w.listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", w.listen)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				w.fail("accept", w.listen, err)
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // the peer's end is not this program's fault
			}()
		}
	}()
	return nil
}

// check compares the content of files with what was written.
func (w *work) check() error {
	b, err := os.ReadFile(filepath.Join(w.dir, "held.txt"))
	if err != nil {
		return err
	}
	if got := strings.Count(string(b), "\n"); got != w.Lines {
		return fmt.Errorf("held.txt has %d lines, %d were written", got, w.Lines)
	}
	names, err := filepath.Glob(filepath.Join(w.dir, "new", "*", "*"))
	if err == nil && len(names) != w.New {
		err = fmt.Errorf("%d new files are there, %d were made", len(names), w.New)
	}
	return err
}
