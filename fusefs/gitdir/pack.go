package gitdir

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's own pack names
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// PackSums are the SHA-256 sums of a pack's index and reverse index. Git computes both from the
// pack alone.
type PackSums struct{ Idx, Rev [32]byte }

// Packs reads packs.
type Packs interface {
	// Sums resolves and hashes every object of the pack that is open read-only as content, whose
	// names have hashLen bytes. It returns an error for a pack that is damaged or needs other
	// objects. At most one call runs at a time.
	Sums(ctx context.Context, content, hashLen int) (PackSums, error)
	// Publish checks that objects, and all that they reach, are in the shared repository or among
	// the agent's own. An object whose name ends in "^{commit}" must be a commit. It moves the
	// agent's own ones among them to the shared repository, and returns the number of moved files.
	Publish(ctx context.Context, revs ...string) (moved int, err error)
}

// maxPacks is the number of packs whose sums are cached.
const maxPacks = 1024

// checkPack accepts a pack whose content has the hash in its name and whose objects are all valid,
// and then the files that belong to it.
func (g *Guard) checkPack(ctx context.Context, a at, name string) error {
	base, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	pack := base + ".pack"
	if ext == ".pack" {
		return g.admitPack(ctx, a, pack)
	}
	g.mu.Lock()
	sums, ok := g.packs[pack]
	g.mu.Unlock()
	if !ok {
		return errors.New("an index must be added after its pack, by the agent that added the pack")
	}
	h := sha256.New()
	if _, err := io.Copy(h, &patient{ctx, stream(a)}); err != nil {
		return fmt.Errorf("read the index: %w", err)
	}
	want := sums.Idx[:]
	if ext == ".rev" {
		want = sums.Rev[:]
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return errors.New("the index is not the one git makes of the pack")
	}
	return nil
}

func (g *Guard) admitPack(ctx context.Context, a at, pack string) error {
	if g.cfg.Packs == nil {
		return errors.New(hintPack)
	}
	raw, err := hex.DecodeString(strings.TrimSuffix(strings.TrimPrefix(path.Base(pack), "pack-"), ".pack"))
	if err != nil {
		return fmt.Errorf("name of the pack: %w", err)
	}
	if err := checkTrailer(ctx, a, raw); err != nil {
		return err
	}
	select {
	case g.packing <- struct{}{}:
		defer func() { <-g.packing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	sums, err := g.cfg.Packs.Sums(ctx, a.fd, len(raw))
	if err != nil {
		return fmt.Errorf("the pack is damaged: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.packs) >= maxPacks {
		clear(g.packs) // an index is written right after its pack
	}
	g.packs[pack] = sums
	return nil
}

// checkTrailer checks that a pack ends with the hash of its content, which is its name
// (gitformat-pack(5)).
func checkTrailer(ctx context.Context, a at, name []byte) error {
	var st unix.Stat_t
	if err := unix.Fstat(a.fd, &st); err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	n := int64(len(name))
	var head [12]byte
	if st.Size < int64(len(head))+n {
		return errors.New("the pack is too short")
	}
	if _, err := a.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	if v := binary.BigEndian.Uint32(head[4:]); string(head[:4]) != "PACK" || v != 2 && v != 3 {
		return errors.New("it is not a pack")
	}
	h := sha1.New() //nolint:gosec // as above
	if n == sha256.Size {
		h = sha256.New()
	}
	if _, err := io.Copy(h, &patient{ctx, io.NewSectionReader(a, 0, st.Size-n)}); err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	end := make([]byte, n)
	if _, err := a.ReadAt(end, st.Size-n); err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, end) || !bytes.Equal(sum, name) {
		return fmt.Errorf("the pack is pack-%x, not pack-%x", sum, name)
	}
	return nil
}
