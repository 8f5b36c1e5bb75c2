package view

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/policy"
)

func BenchmarkRead(b *testing.B) {
	g := newGuard(b, policy.Rules{Read: []string{"docs", "**/*.go"}, Write: []string{"src/**"}, Deny: []string{"*.pem"}})
	b.ReportAllocs()
	for b.Loop() {
		g.Read(b.Context(), caller, fusefs.OpOpenRead, "some/where/deep/in/the/tree.go")
	}
}

func BenchmarkVisible(b *testing.B) {
	g := newGuard(b, policy.Rules{Read: []string{"docs", "**/*.go"}, Write: []string{"src/**"}, Deny: []string{"*.pem"}})
	b.ReportAllocs()
	for b.Loop() {
		g.Visible("some/where/deep/in/the/tree.go", false)
	}
}

// heldLeases is a lock table in which everything is held already.
type heldLeases struct{ page }

func (heldLeases) Held(fusefs.Op, string) fusefs.Ticket { return noTicket{} }

// The decision about a write to a file whose lease is held: policy and lease.
func BenchmarkWriteHeld(b *testing.B) {
	g := newGuard(b, benchRules, holding)
	b.ReportAllocs()
	for b.Loop() {
		tk, _ := g.Write(b.Context(), caller, fusefs.OpOpenWrite, benchTarget...)
		tk.Done()
	}
}

var (
	benchRules = policy.Rules{Read: []string{"docs", "**/*.go"}, Write: []string{"src/**", "lib/**", "cmd/*/*.go"}, Deny: []string{"*.pem", "secrets/**"}}
	// As fusefs hands them over: made once per operation.
	benchTarget = []fusefs.Target{{Path: "src/where/deep/in/the/tree.go"}}
)

func holding(c *Config) { c.Locker = heldLeases{} }

// What a guard decides about what it knows costs no allocation.
func TestDecisionsAllocateNothing(t *testing.T) {
	g := newGuard(t, benchRules, holding)
	ctx, path := t.Context(), benchTarget[0].Path
	for name, decide := range map[string]func(){
		"visible":  func() { g.Visible(path, false) },
		"read":     func() { g.Read(ctx, caller, fusefs.OpOpenRead, path) },
		"standing": func() { g.CachedVerdict(path, false) },
		"write": func() {
			tk, errno := g.Write(ctx, caller, fusefs.OpOpenWrite, benchTarget...)
			if errno != 0 {
				t.Fatal(errno)
			}
			tk.Done()
		},
	} {
		require.Zero(t, testing.AllocsPerRun(1000, decide), name)
	}
}
