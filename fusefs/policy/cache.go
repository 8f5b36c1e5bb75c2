package policy

import (
	"hash/maphash"
	"strings"
	"sync"
)

// A decision costs some tens of nanoseconds per rule; a look-up costs about
// as much as one rule. The cache is bounded because an agent chooses the
// paths: a full shard is dropped whole, which needs no bookkeeping on a hit.
const (
	shards   = 32
	perShard = 512
)

type cacheKey struct {
	path string
	dir  bool
}

type cache struct {
	seed  maphash.Seed
	once  sync.Once
	shard [shards]struct {
		mu sync.RWMutex
		m  map[cacheKey]Decision
	}
}

func (c *cache) index(path string) uint64 {
	c.once.Do(func() { c.seed = maphash.MakeSeed() })
	return maphash.String(c.seed, path) % shards
}

func (c *cache) get(path string, dir bool) (Decision, bool) {
	s := &c.shard[c.index(path)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.m[cacheKey{path, dir}]
	return d, ok
}

func (c *cache) put(path string, dir bool, d Decision) {
	s := &c.shard[c.index(path)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || len(s.m) >= perShard {
		s.m = make(map[cacheKey]Decision)
	}
	// The path may be part of a request buffer: keep a copy.
	s.m[cacheKey{strings.Clone(path), dir}] = d
}
