package view

import (
	"testing"

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
