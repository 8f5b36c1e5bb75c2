package events

import (
	"context"

	"polis/daemon/api"
)

// Follow calls each with the events that are published from now on, until ctx ends. Events that the hub has dropped before
// they were read are left out.
func (h *Hub) Follow(ctx context.Context, each func(api.Event)) {
	wake, cancel := h.Watch()
	defer cancel()
	last := h.Last()
	for {
		evs, newest, _ := h.Read(last)
		for _, e := range evs {
			each(e)
		}
		last = newest
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}
