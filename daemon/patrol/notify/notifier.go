package notify

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
)

// The bounds of a Notifier.
const (
	MaxWaiting = 64   // messages that wait
	maxKeys    = 1024 // keys that are known
	// DefaultAgain is how long a key is known.
	DefaultAgain = time.Hour
)

// Message is what a person should see.
type Message struct {
	// Key is equal for equal messages: they are sent once in Notifier.Again. "": it has no equal.
	Key string
	// Notice makes what is sent when its turn has come; false: it is not worth a message any more.
	Notice func(ctx context.Context) (Notice, bool)
}

// Notice is what is sent, and the user that the command runs as.
type Notice struct {
	User  User
	Event api.Event
}

// Notifier sends messages one after the other. Assign its fields, then Send; Run sends them.
type Notifier struct {
	// Settings are the present ones. They are read for each message.
	Settings func() Settings
	// Deliver sends one message; nil: the command of the settings.
	Deliver func(ctx context.Context, u User, ev api.Event) (output string, err error)
	// Again is how long a key is known; 0: DefaultAgain.
	Again time.Duration
	Log   *slog.Logger
	// Now is for tests.
	Now func() time.Time

	mu      sync.Mutex
	waiting []Message
	dropped int // since the last message that was sent
	keys    map[string]time.Time
	wake    chan struct{}
}

// Settings are what the configuration has.
type Settings struct {
	Command Command
	// Pause is the shortest time between two messages.
	Pause time.Duration
	// Off: messages are discarded.
	Off bool
}

// Send queues a message. It never blocks: without room the oldest one that waits is dropped, and
// the next that is sent has the number of those in Data["dropped"].
func (n *Notifier) Send(m Message) {
	if n.Settings().Off {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.fresh(m.Key) {
		return
	}
	if len(n.waiting) >= MaxWaiting {
		n.waiting = slices.Delete(n.waiting, 0, 1)
		n.dropped++
	}
	n.waiting = append(n.waiting, m)
	select {
	case n.wakeup() <- struct{}{}:
	default:
	}
}

// fresh reports whether the key is new, and notes it. mu is held.
func (n *Notifier) fresh(key string) bool {
	if key == "" {
		return true
	}
	now, again := n.now(), n.Again
	if again == 0 {
		again = DefaultAgain
	}
	if at, known := n.keys[key]; known && now.Sub(at) < again {
		return false
	}
	if n.keys == nil {
		n.keys = map[string]time.Time{}
	}
	if len(n.keys) >= maxKeys {
		maps.DeleteFunc(n.keys, func(_ string, at time.Time) bool { return now.Sub(at) >= again })
	}
	if len(n.keys) >= maxKeys {
		oldest := key
		for k, at := range n.keys {
			if o, ok := n.keys[oldest]; !ok || at.Before(o) {
				oldest = k
			}
		}
		delete(n.keys, oldest)
	}
	n.keys[key] = now
	return true
}

// wakeup is the channel that Run waits on. mu is held.
func (n *Notifier) wakeup() chan struct{} {
	if n.wake == nil {
		n.wake = make(chan struct{}, 1)
	}
	return n.wake
}

// Run sends messages until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	n.mu.Lock()
	wake := n.wakeup()
	n.mu.Unlock()
	for ctx.Err() == nil {
		m, ok := n.next()
		if !ok {
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		if !n.send(ctx, m) {
			continue
		}
		pause := time.NewTimer(n.Settings().Pause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

func (n *Notifier) next() (Message, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		return Message{}, false
	}
	m := n.waiting[0]
	n.waiting = slices.Delete(n.waiting, 0, 1)
	return m, true
}

// send sends one message, and reports whether the command ran.
func (n *Notifier) send(ctx context.Context, m Message) bool {
	s := n.Settings()
	if s.Off {
		return false
	}
	notice, ok := m.Notice(ctx)
	if !ok {
		return false
	}
	ev := notice.Event
	n.mu.Lock()
	dropped := n.dropped
	n.dropped = 0
	n.mu.Unlock()
	if dropped > 0 {
		if ev.Data = maps.Clone(ev.Data); ev.Data == nil {
			ev.Data = map[string]any{}
		}
		ev.Data["dropped"] = dropped
	}
	deliver := n.Deliver
	if deliver == nil {
		deliver = s.Command.Run
	}
	output, err := deliver(ctx, notice.User, ev)
	switch {
	case err != nil && ctx.Err() == nil:
		n.Log.Warn("notification failed", "op", ev.Type, "agent", ev.Agent, "output", output, "err", err)
	case err == nil:
		n.Log.Debug("notified", "op", ev.Type, "agent", ev.Agent, "output", output, "dropped", dropped)
	}
	return true
}

func (n *Notifier) now() time.Time {
	if n.Now != nil {
		return n.Now()
	}
	return time.Now()
}
