package wire

// Remounted is the answer to POST /v1/remount ([RemountVersion]).
type Remounted struct {
	// Paths are the mount points, on the host, where a view is mounted again.
	Paths []string `json:"paths"`
}
