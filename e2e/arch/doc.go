// Package arch tests the architecture: which package may import which, what each program links, a
// doc.go in every package, small main files. It has no code of its own and runs only "go list" and
// git.
package arch
