package main

import (
	"bytes"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// TestOneWriterHasTheTerminal: a question begins on a line of its own, and neither the turning line nor output is written into it.
func TestOneWriterHasTheTerminal(t *testing.T) {
	var s screen
	var out bytes.Buffer
	write := func(text string) {
		_, err := onScreen{&s, &out}.Write([]byte(text))
		require.NoError(t, err)
	}
	written := func() string { defer out.Reset(); return out.String() }
	const erase = "\r" + ansi.EraseLineRight
	write("half a line")
	s.hold(&out)
	require.Equal(t, "half a line\n", written())
	s.turn(&out, "| waits")
	s.endTurn(&out)
	require.Empty(t, written(), "a question has the terminal")
	done := make(chan struct{})
	go func() { defer close(done); write("the rest\n") }()
	s.release()
	<-done
	require.Equal(t, "the rest\n", written())

	s.turn(&out, "| waits")
	s.hold(&out)
	require.Equal(t, erase+"| waits"+erase, written())
	s.release()
	s.endTurn(&out)
	require.Empty(t, written(), "it is erased once")
	s.turn(&out, "/ waits")
	s.endTurn(&out)
	require.Equal(t, erase+"/ waits"+erase, written())
	s.hold(&out)
	s.release()
	require.Empty(t, written())

	s.turn(&out, "- waits")
	write("output\n")
	s.endTurn(&out)
	require.Equal(t, erase+"- waits"+erase+"output\n", written(), "output is not written behind it")
}
