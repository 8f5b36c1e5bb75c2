package git

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxTakenIndex is the largest index of a pack that is moved without repacking, in bytes.
const maxTakenIndex = 512 << 20

// packed moves objects that are in packs. A pack of which every object is wanted moves as it is,
// as after a fetch. The other objects go into a new pack. ErrNotFound means that an object is in
// neither repository: an agent can remove its own after they were found.
func (t *taker) packed(ctx context.Context, from Repo, ids []string) error {
	ids = slices.DeleteFunc(ids, t.has)
	if len(ids) == 0 {
		return nil
	}
	some, err := t.packs(ids)
	if err != nil {
		return fmt.Errorf("publish packs: %w", err)
	}
	lack, err := missing(ctx, t.r, ids)
	if err != nil || len(lack) == 0 {
		return err
	}
	if !some && !t.copies {
		return fmt.Errorf("publish object %s: %w", lack[0], ErrNotFound)
	}
	return pipe(ctx, from, t.r, strings.NewReader(strings.Join(lack, "\n")+"\n"))
}

// packs moves the packs that contain nothing but ids. It reports whether there are any packs.
func (t *taker) packs(ids []string) (some bool, err error) {
	dir, err := unix.Openat2(t.from, "pack", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return false, ignore(err, unix.ENOENT)
	}
	f := os.NewFile(uintptr(dir), "pack")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	wanted := map[string]bool{}
	for _, n := range names {
		stem, ok := strings.CutSuffix(n, ".idx")
		if !ok || !strings.HasPrefix(stem, "pack-") || !slices.Contains(names, stem+".pack") {
			continue
		}
		if len(wanted) == 0 {
			for _, id := range ids {
				wanted[id] = true
			}
		}
		some = true
		if err := t.pack(dir, stem, wanted); err != nil {
			return some, fmt.Errorf("%s: %w", stem, err)
		}
	}
	return some, nil
}

// pack moves a pack if every object of it is wanted. It adds the index last and removes the index
// first: a git that sees the index then finds the other files.
func (t *taker) pack(dir int, stem string, wanted map[string]bool) error {
	all, err := t.allOf(dir, stem, wanted)
	if err != nil || !all {
		return err
	}
	to, err := t.dir("pack")
	if err != nil {
		return err
	}
	defer unix.Close(to)
	for _, ext := range []string{".pack", ".rev", ".idx"} {
		err := unix.Linkat(dir, stem+ext, to, stem+ext, 0)
		switch {
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EMLINK):
			return nil // its objects are copied
		case errors.Is(err, unix.ENOENT) && ext == ".rev", errors.Is(err, unix.EEXIST):
		case err != nil:
			return err
		}
	}
	if err := touch(to, stem+".pack"); err != nil {
		return err
	}
	for _, ext := range []string{".idx", ".rev", ".pack"} {
		if err := t.drop(dir, stem+ext); err != nil {
			return err
		}
	}
	return nil
}

// allOf reports whether every object of a pack is wanted.
func (t *taker) allOf(dir int, stem string, wanted map[string]bool) (bool, error) {
	hash, names, err := indexed(dir, stem)
	if err != nil || len(names) == 0 || len(names)/hash > len(wanted) {
		return false, err
	}
	for id := range slices.Chunk(names, hash) {
		if !wanted[hex.EncodeToString(id)] {
			return false, nil
		}
	}
	return true, nil
}
