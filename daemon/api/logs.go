package api

const (
	// HeaderLogPosition of an answer with an agent's output is the number of its first byte,
	// counted from the beginning of the log, including what was rotated away. That plus the
	// number of bytes read is where to continue (query "from"). It is missing if it is unknown.
	HeaderLogPosition = "Polis-Log-Position"
	// HeaderLogMissed is there when what comes after the position asked for is no
	// longer all there; the answer begins with the oldest that is.
	HeaderLogMissed = "Polis-Log-Missed"
)
