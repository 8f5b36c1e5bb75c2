// Package main is the command gotest, which runs "go test -json" and prints what a person or a log of
// continuous integration needs of it: a line per package, the output of tests
// that failed, and the tests that were skipped. With CI set in the environment
// a skipped test is a failure, because a test that needs root, FUSE or a
// program and does not find it has tested nothing.
//
// It owns no test and sets no option: its arguments go to go test as they are. With "-sides N"
// before them it builds the tests of the one package that is the last argument, and runs N of them
// at the same time, each in a process of its own with the timeout given: tests that mostly wait need
// a part of the time, and one that panics ends no other. The package's testdata/order.txt names
// those that begin first, because they take long, and those that run alone at the end, because they
// measure what things cost.
package main
