// Package remoterules decides which operations on the project's remotes an agent may request, and
// which of them a person must approve first.
//
// An approval is for one request: it is the key of the question, which contains all refs and
// commits. Which refs an agent may push is decided by package push, and package remote performs the
// operation. This package contacts no remote and reads no repository. It holds no lock.
package remoterules
