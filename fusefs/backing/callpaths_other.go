//go:build !amd64

package backing

// oldPathCalls are those that newer architectures do not have.
var oldPathCalls map[int][]pathArg
