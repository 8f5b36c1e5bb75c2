// Package access decides which requests an agent may send to a service that is no model service, and how
// the key is put into them: the canonical form of a path, the rules of methods and paths, and the header.
// It is pure: it connects to nothing and holds no key.
//
// A path is checked in the form in which it is sent. What a server could read in another way than these
// rules do is refused: dot segments, empty segments, percent signs, separators in encoded form. So is a parameter,
// or a field of a form, that a service can take for another method.
package access
