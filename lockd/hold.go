package lockd

import (
	"fmt"
	"time"
)

// Hold is how long a lease outlives the last handle that needed it.
type Hold time.Duration

// HoldClose releases the lease at the last close; HoldMerge keeps it until Release, ReleaseAll or
// the server's ReleaseMerge.
const (
	HoldClose Hold = 0
	HoldMerge Hold = -1
)

// ParseHold reads "close", "merge" or a positive duration such as "30s".
func ParseHold(s string) (Hold, error) {
	switch s {
	case "close":
		return HoldClose, nil
	case "merge":
		return HoldMerge, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("hold %q: want close, merge or a duration", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("hold %q: negative duration", s)
	}
	return Hold(d), nil
}

func (h Hold) String() string {
	switch {
	case h == HoldClose:
		return "close"
	case h < 0:
		return "merge"
	}
	return time.Duration(h).String()
}
