// Package metrics words the state of the daemon for programs and people that watch it: Prometheus text,
// and the status line of systemd.
//
// It decides which counters there are. It reads nothing, keeps nothing and holds no lock.
package metrics
