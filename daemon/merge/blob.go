package merge

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's own object names
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/daemon/merge/gate"
)

// widening is how many times larger a file in the checkout can be than its blob: converted line
// endings double it, and of the encodings that gitattributes(5) can name UTF-32 makes four bytes of
// one, with a mark of the byte order before them.
const widening, mark = 2 * 4, 8

// largest returns the size, in bytes, above which a file has neither content of a change. A user can
// have put a file of any size there while git worked, which is not read.
func (b *before) largest(ctx context.Context, c gate.Change) (int64, error) {
	most := int64(0)
	for _, side := range [][2]string{{c.Old, c.OldID}, {c.New, c.ID}} {
		if side[0] == gate.ModeNone {
			continue
		}
		out, err := b.p.Line(ctx, "cat-file", "-s", side[1])
		if err != nil {
			return 0, fmt.Errorf("read the size of %q: %w", short(c.Path), err)
		}
		n, err := strconv.ParseInt(out, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the size of %q: %w", short(c.Path), err)
		}
		most = max(most, n)
	}
	return most*widening + mark, nil
}

// begins reports whether a file is a beginning of a change's content.
func (b *before) begins(ctx context.Context, root *os.Root, c gate.Change) bool {
	want, err := b.p.Run(ctx, "cat-file", "blob", c.ID)
	if err != nil {
		return false
	}
	// The user can have put anything in its place, of any size.
	f, err := root.OpenFile(c.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	has, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	return err == nil && bytes.HasPrefix(want, has)
}

// blobID is the name git gives a file with that content.
func blobID(in io.Reader, size int64, idLen int) (string, error) {
	h := sha1.New() //nolint:gosec // as above
	if idLen == hexLen256 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	if _, err := io.Copy(h, io.LimitReader(in, size)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

const hexLen256 = 2 * sha256.Size
