// Package screen is the terminal that a program of an agent writes to: it turns
// the program's bytes into the lines that a person would see. It keeps the two
// screens of an xterm (main and alternate), the lines that left the top of the
// main one (the scroll-back), and writes a transcript: every line once it is
// complete, and again if it was rewritten and then stayed.
//
// The bytes are hostile. Memory is bounded by the size of the terminal and the
// limits in this package, the time for a byte by the width of a line; nothing is
// ever answered, and what is not understood is dropped. Lines hold printable
// text, and SGR sequences made here (ECMA-48, xterm's ctlseqs).
//
// It is pure: it opens nothing, starts nothing and has no lock. The caller
// serialises the calls and gives the time.
package screen
