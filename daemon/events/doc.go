// Package events keeps the last events of the daemon and hands them to
// subscribers. Publishing never blocks: a subscriber that is too slow loses
// its place and is told so, because an event must not delay a system call.
// One mutex guards the ring and the list of subscribers.
package events
