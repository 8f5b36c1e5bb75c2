package setting

import (
	"fmt"
	"time"
)

// Hold is how long a lease is kept after the last use: "close", "merge" or a duration such as
// "30s".
type Hold string

// Duration is 0 for "close", negative for "merge".
func (h Hold) Duration() (time.Duration, error) {
	switch h {
	case "close":
		return 0, nil
	case "merge":
		return -1, nil
	}
	return period("hold", string(h))
}

// OnConflict is what happens to an agent that wants what another has: "fail" at once, or after a
// wait, a duration such as "3s".
type OnConflict string

// Duration is how long to wait, 0 for "fail".
func (o OnConflict) Duration() (time.Duration, error) {
	if o == "fail" {
		return 0, nil
	}
	return period("on_conflict", string(o))
}

func period(what, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s %q is no duration", what, s)
	}
	return d, nil
}

// LockRule applies to the paths that Glob matches; an empty field has no effect.
type LockRule struct {
	Glob       string     `json:"glob" toml:"glob"`
	Hold       Hold       `json:"hold,omitempty" toml:"hold"`
	OnConflict OnConflict `json:"on_conflict,omitempty" toml:"on_conflict"`
}
