// Package remoterules decides which operations on the project's remotes an agent may request, which
// of them a person must approve first, and in which order an operation is checked and performed.
//
// An approval is for one request: it is the key of the question, which contains all refs and
// commits. Which refs an agent may push is decided by package push, and package remote performs the
// operation: this package calls both, and never performs what it has not permitted. It reads no
// repository. It holds no lock.
package remoterules
