package daemon

import (
	"sync"
	"time"
)

// beats are when the shims last sent a line of their events. The zero value is ready.
type beats struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (b *beats) note(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[string]time.Time{}
	}
	b.at[agent] = time.Now()
}

func (b *beats) age(agent string) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.at[agent]
	return time.Since(at), ok
}

func (b *beats) forget(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, agent)
}
