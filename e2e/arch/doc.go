// Package arch keeps the architecture as tests: which package may import
// which, what each program links, a doc.go in every package, thin programs. It owns
// no code of its own and never runs anything but "go list".
package arch
