// Package events keeps the last events of the daemon and sends them to subscribers. Publishing
// never blocks: a subscriber that is too slow is dropped and notified, because an event must not
// delay a system call. [Reserve] gives each run of the daemon numbers of its own. One mutex guards the ring and the list of subscribers.
package events
