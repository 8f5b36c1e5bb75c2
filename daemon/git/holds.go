package git

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Holds returns the ids whose objects are in own itself, a directory of objects that an agent
// writes through its view. Unlike git, it ignores the alternates of own.
func Holds(own string, ids []string) (map[string]bool, error) {
	fail := func(err error) (map[string]bool, error) {
		return nil, fmt.Errorf("find objects in %s: %w", own, err)
	}
	dir, err := unix.Open(own, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(dir)
	held, rest := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		if !IsOID(id) {
			continue
		}
		fd, err := unix.Openat2(dir, id[:2]+"/"+id[2:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: beneath})
		switch {
		case err == nil:
			held[id] = true
			unix.Close(fd)
		case errors.Is(err, unix.ENOENT):
			rest[id] = true
		default:
			return fail(err)
		}
	}
	if len(rest) == 0 {
		return held, nil
	}
	fd, err := unix.Openat2(dir, "pack", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath})
	if errors.Is(err, unix.ENOENT) {
		return held, nil
	}
	if err != nil {
		return fail(err)
	}
	packs := os.NewFile(uintptr(fd), "pack")
	defer packs.Close()
	names, err := packs.Readdirnames(-1)
	if err != nil {
		return fail(err)
	}
	for _, n := range names {
		stem, ok := strings.CutSuffix(n, ".idx")
		if !ok || !strings.HasPrefix(stem, "pack-") || !slices.Contains(names, stem+".pack") {
			continue
		}
		hash, in, err := indexed(fd, stem)
		if err != nil {
			return fail(err)
		}
		for id := range slices.Chunk(in, max(hash, 1)) {
			if s := hex.EncodeToString(id); rest[s] {
				held[s] = true
			}
		}
	}
	return held, nil
}

// indexed returns the concatenated ids of a pack, from its index (gitformat-pack(5), version 2).
// Publication has checked the index against the pack. It returns none for an index that is
// missing, too large or of another version.
func indexed(dir int, stem string) (hash int, ids []byte, err error) {
	fd, err := unix.Openat2(dir, stem+".idx", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return 0, nil, ignore(err, unix.ENOENT)
	}
	f := os.NewFile(uintptr(fd), stem)
	defer f.Close()
	const head, fanout = 8, 256 * 4
	var b [head + fanout]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		return 0, nil, fmt.Errorf("read its index: %w", err)
	}
	hash = (len(stem) - len("pack-")) / 2
	n := int64(binary.BigEndian.Uint32(b[head+fanout-4:]))
	if !bytes.Equal(b[:head], []byte("\xfftOc\x00\x00\x00\x02")) || n*int64(hash) > maxTakenIndex {
		return 0, nil, nil
	}
	ids = make([]byte, n*int64(hash))
	if _, err := io.ReadFull(f, ids); err != nil {
		return 0, nil, fmt.Errorf("read its index: %w", err)
	}
	return hash, ids, nil
}
