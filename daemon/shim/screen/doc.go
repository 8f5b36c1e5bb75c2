// Package screen emulates the terminal of an agent's program: it converts the program's output into
// the lines that a person would see. It keeps the two screens of an xterm (main and alternate) and
// the lines that scrolled off the top of the main one (the scroll-back). It writes a transcript:
// each line when it is complete, and again if it is rewritten and then stays.
//
// The output is hostile input. The size of the terminal and the limits in this package bound the
// memory. The width of a line bounds the time for a byte. The package never answers the program,
// and drops unknown sequences. The lines contain only printable text and SGR sequences that this
// package makes (ECMA-48, xterm's ctlseqs).
//
// The package is pure: it opens nothing, starts nothing and has no lock. The caller serialises the
// calls and passes the time.
package screen
