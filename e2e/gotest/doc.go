// Package main is the command gotest, which runs "go test -json" and prints what a person or a log of
// continuous integration needs of it: a line per package, the output of tests
// that failed, and the tests that were skipped. With CI set in the environment
// a skipped test is a failure, because a test that needs root, FUSE or a
// program and does not find it has tested nothing.
//
// It owns no test and sets no option: its arguments go to go test as they are. With "-sides N"
// before them, which needs one package as the last argument, N calls of go test each run a part of
// its tests at the same time: tests that mostly wait need half as long.
package main
