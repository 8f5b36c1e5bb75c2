// Package main is the command gotest, which runs "go test -json" and prints what a person or a log of
// continuous integration needs of it: a line per package, the output of tests
// that failed, and the tests that were skipped. With CI set in the environment
// a skipped test is a failure, because a test that needs root, FUSE or a
// program and does not find it has tested nothing.
//
// A test that failed is run once more, alone, after all others. If it passes then, it is printed as
// "FLAKY package.Test" with the output of its first run, and counted: more than two in a run are a
// failure; in a run of 3,000 tests or more, more than one of a thousand. A package that does not
// build, a data race, and a panic, time limit or exit that kept other tests from running stay failures. POLIS_TEST_RESULTS names the file in which the invocations of one
// run (scripts/parts) record what failed, what is flaky and how many tests ran.
//
// It owns no test and sets no option: its arguments go to go test as they are. With "-sides N"
// before them it builds the tests of the one package that is the last argument, and runs N of them
// at the same time, each in a process of its own with the timeout given: tests that mostly wait need
// a part of the time, and one that panics ends no other. The package's testdata/order.txt names
// those that begin first, because they take long, and those that run alone at the end, because they
// measure what things cost.
//
// SIGINT and SIGTERM go to the tests as well. Then gotest begins no other, prints what it knows, and fails.
package main
