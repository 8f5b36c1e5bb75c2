package api

const (
	// HeaderLogPosition of an answer with an agent's output is the number of its
	// first byte, counted from the beginning of the log, also of what has been
	// rotated away. That plus the bytes that were read is where to go on (query
	// "from"). It is not there if nobody knows.
	HeaderLogPosition = "Polis-Log-Position"
	// HeaderLogMissed is there when what comes after the position asked for is no
	// longer all there; the answer begins with the oldest that is.
	HeaderLogMissed = "Polis-Log-Missed"
)
