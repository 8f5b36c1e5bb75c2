// Package layout says where things are: below a workspace, below the run
// directory. It only joins strings; it creates and reads nothing.
package layout
