// Package work is the part of the benchmark that runs inside a sandbox. It
// performs one operation in one directory and reports its wall time and CPU time.
//
// Requests and replies are lines of JSON on standard input and output. The
// package does not depend on the file system or on polis: the same process
// does the same work for every column of the table. It never keeps a file open
// between requests.
package work
