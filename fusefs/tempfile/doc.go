// Package tempfile knows the temporary files of an agent: files that programs make to save other files, in
// directories of which the rules let the agent write only single files.
//
// A temporary file has a mark: an extended attribute of the file below the view, which no agent can see or set. The
// mark contains the path of the file, and the name of the file that was renamed to it if there was one. It does not
// count under another path, so a second name of the file and a file that is put in its place are not temporary.
// The mark is what decides. Table keeps the paths as well, in memory and in a record that outlives the process: to
// bound their number, and to find what is left when the agent stops.
//
// The package decides nothing about the rules. It resolves paths beneath one directory and follows no link.
//
// Lock order: the mutex of a Table is a leaf; the record is written while it is held.
package tempfile
