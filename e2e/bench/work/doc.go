// Package work is the part of the benchmark that runs inside a sandbox: it
// does one piece of work in one directory and says what that took.
//
// Requests and replies are lines of JSON on standard input and output. It
// knows neither which file system it is on nor what polis is; the same process
// does the same work for every column of the table. It never keeps a file open
// between requests.
package work
