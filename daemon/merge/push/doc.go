// Package push decides what an agent may push to a remote repository of its project.
//
// It owns the rule for names (the agent's own branch, the branches that the configuration
// names, and the tags that the agent made) and the comparison of each pushed commit with the
// agent's rules, as before a merge (package gate).
//
// It never contacts a remote, and never moves a ref: package remote does both. It holds no lock.
package push
