package main

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// unixMono prints CLOCK_MONOTONIC in microseconds, which sd_notify(3) requires with RELOADING=1.
type unixMono struct{}

func (unixMono) String() string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return "0"
	}
	return strconv.FormatInt(ts.Nano()/1000, 10)
}
