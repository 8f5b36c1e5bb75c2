// Package novelty distinguishes output that says something new from output that repeats: the frames of a spinner, a
// counter of seconds, the same screen drawn again. It compares only words, and remembers a bounded number
// of lines. What a program prints is hostile input.
package novelty
