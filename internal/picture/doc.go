// Package picture draws the pictures of the documentation as SVG: a diagram from its text (Diagram), and a screen of
// a terminal from its lines (Terminal). The same input makes the same bytes, so that a test can tell an old picture.
//
// The pictures load nothing, run nothing, and follow the reader's preference for dark or light. Only tests import the
// package ("make pictures"); no program of polis does. It opens nothing and has no lock.
package picture
