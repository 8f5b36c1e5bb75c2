package wire

// ChangesRequest makes a cut of the set of changed paths.
type ChangesRequest struct {
	// Since is the cut up to which the caller knows the tree; "" for none.
	Since string `json:"since,omitempty"`
	// Lose, if not "", is why polisd is about to change files below the view, of which the set knows
	// nothing: it is lost for the next request, and there is no cut.
	Lose string `json:"lose,omitempty"`
	// Add, if not empty, are paths that polisd is about to change below the view. There is no cut.
	Add [][]byte `json:"add,omitempty"`
}

// Changes are the paths that may have changed. A path is any bytes but NUL.
type Changes struct {
	// Cut is the Since of the next request, if all of these are dealt with.
	Cut   string   `json:"cut"`
	Paths [][]byte `json:"paths,omitempty"`
	// Trees are directories at and below which anything may have changed.
	Trees [][]byte `json:"trees,omitempty"`
	// Whole is why the paths are not known, and the whole tree must be read; "" if they are.
	Whole string `json:"whole,omitempty"`
}

// Names returns paths as ChangesRequest has them.
func Names(paths []string) [][]byte {
	out := make([][]byte, len(paths))
	for i, p := range paths {
		out[i] = []byte(p)
	}
	return out
}
