package api

import "slices"

// Sparse is a sparse checkout in git's cone mode (git-sparse-checkout(1)): the worktree has the files at the top, those
// directly in each directory above one of Directories, and everything below these.
type Sparse struct {
	// Directories are relative to the top of the repository. With none, only the files at the top are there.
	Directories []string `json:"directories"`
}

// Clone returns a copy; nil of nil.
func (s *Sparse) Clone() *Sparse {
	if s == nil {
		return nil
	}
	return &Sparse{Directories: slices.Clone(s.Directories)}
}
