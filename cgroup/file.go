package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gone reports that a group was removed while it was read: its files return ENODEV from then on.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

func readFile(dir, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(b)), err
}

func readFields(dir, name string) ([]string, error) {
	s, err := readFile(dir, name)
	return strings.Fields(s), err
}

// writeFile writes a value in one write(2), as the kernel requires, and never creates the file: a
// missing file means a missing controller.
func writeFile(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// readUint reads a number; "max" and v1's huge "no limit" are 0.
func readUint(dir, name string) (uint64, error) {
	s, err := readFile(dir, name)
	if err != nil {
		return 0, err
	}
	return parseUint(s)
}

func parseUint(s string) (uint64, error) {
	if s == "max" || s == "-1" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	// v1's default limit is the largest multiple of the page size an int64 holds.
	if err == nil && v >= 1<<62 {
		return 0, nil
	}
	return v, err
}

// readKey reads one value of a "key value" file. A missing key is 0.
func readKey(dir, name, key string) (uint64, error) {
	s, err := readFile(dir, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return parseUint(v)
		}
	}
	return 0, nil
}

func readPids(dir, name string) ([]int, error) {
	fields, err := readFields(dir, name)
	if err != nil {
		return nil, err
	}
	out := make([]int, 0, len(fields))
	for _, f := range fields {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}
