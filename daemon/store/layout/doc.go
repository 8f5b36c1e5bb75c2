// Package layout has the paths of all files: below a workspace, below the run
// directory. It only joins strings; it creates and reads nothing.
package layout
