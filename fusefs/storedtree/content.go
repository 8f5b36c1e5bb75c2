package storedtree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// chunk is the size of the parts of an object that are verified apart.
const chunk = 128 << 10

// errDamaged reports a content that is not what its hash says.
var errDamaged = errors.New("the stored content does not match its hash")

var buffers = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// parts are the hashes of the parts of a verified object.
type parts struct {
	size int64
	sums []Hash
}

// verify reads an object from its start, and compares it with its hash.
func verify(f *os.File, want Hash, size int64) (*parts, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() != size {
		return nil, errDamaged
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	p := &parts{size: size, sums: make([]Hash, 0, (size+chunk-1)/chunk)}
	all := sha256.New()
	for at := int64(0); at < size; at += chunk {
		b := (*buf)[:min(chunk, size-at)]
		if err := readAt(f, b, at); err != nil {
			return nil, err
		}
		all.Write(b)
		p.sums = append(p.sums, sha256.Sum256(b))
	}
	if Hash(all.Sum(nil)) != want {
		return nil, errDamaged
	}
	return p, nil
}

// readAt fills b. A file that has become shorter is damaged.
func readAt(f *os.File, b []byte, at int64) error {
	_, err := io.ReadFull(io.NewSectionReader(f, at, int64(len(b))), b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errDamaged
	}
	return err
}

// read fills dest from an offset and returns the number of bytes, fewer only at the end. Each part that it needs
// is compared with its hash, as a whole.
func (p *parts) read(f *os.File, dest []byte, at int64) (n int, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for n < len(dest) && at >= 0 && at < p.size {
		i := at / chunk
		b := (*buf)[:min(chunk, p.size-i*chunk)]
		if err := readAt(f, b, i*chunk); err != nil {
			return 0, err
		}
		if sha256.Sum256(b) != p.sums[i] {
			return 0, fmt.Errorf("part %d: %w", i, errDamaged)
		}
		k := copy(dest[n:], b[at-i*chunk:])
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// maxKept bounds the hashes of parts that are kept of objects that are not open: those of about 8 GiB.
const maxKept = 64 << 10

// known keeps the parts of objects. The zero value is not usable.
type known struct {
	mu    sync.Mutex
	of    map[Hash]*parts
	order []Hash // oldest first
	kept  int    // number of hashes
}

func (k *known) get(h Hash) *parts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[h]
}

func (k *known) put(h Hash, p *parts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of[h] != nil {
		return
	}
	k.of[h] = p
	k.order = append(k.order, h)
	k.kept += len(p.sums) + 1
	for k.kept > maxKept && len(k.order) > 1 {
		old := k.order[0]
		k.kept -= len(k.of[old].sums) + 1
		delete(k.of, old)
		k.order = k.order[1:]
	}
}
