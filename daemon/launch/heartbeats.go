package launch

import (
	"sync"
	"time"
)

// heartbeats are when the shims last sent a line of their events. The zero value is ready.
type heartbeats struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (b *heartbeats) note(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[string]time.Time{}
	}
	b.at[agent] = time.Now()
}

func (b *heartbeats) age(agent string) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.at[agent]
	return time.Since(at), ok
}

func (b *heartbeats) forget(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, agent)
}
