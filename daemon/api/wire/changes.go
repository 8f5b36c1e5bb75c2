package wire

import "encoding/base64"

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

// maxNoted bounds a request, in bytes: a shim takes 1 MiB.
const maxNoted = 768 << 10

// Noting is the request for paths, at least one, that polisd is about to change below the view. With
// more than a request can have the set is lost; why is for people.
func Noting(paths []string, why string) ChangesRequest {
	req, size := ChangesRequest{}, 0
	for _, p := range paths {
		if size += base64.StdEncoding.EncodedLen(len(p)) + len(`"",`); size > maxNoted {
			return ChangesRequest{Lose: why}
		}
		req.Add = append(req.Add, []byte(p))
	}
	return req
}
