package snapshot

import "polis/daemon/history/cas"

// objects is where stored lists are.
type objects interface {
	Bytes(h cas.Hash, limit int64) ([]byte, error)
}

// Load reads a stored manifest, and applies a stored delta to it; "" for none.
func Load(from objects, manifest, delta string) (*Manifest, error) {
	b, err := stored(from, manifest)
	if err != nil {
		return nil, err
	}
	m, err := Parse(b)
	if err != nil || delta == "" {
		return m, err
	}
	d, err := LoadDelta(from, delta)
	if err != nil {
		return nil, err
	}
	return d.Apply(m), nil
}

func stored(from objects, hash string) ([]byte, error) {
	h, err := cas.Parse(hash)
	if err != nil {
		return nil, err
	}
	return from.Bytes(h, MaxManifest)
}
