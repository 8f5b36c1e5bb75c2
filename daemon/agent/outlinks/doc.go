// Package outlinks finds the symbolic links of a project that lead out of the sandboxes of its agents: the interpreter
// of a virtual environment in its owner's home, or an .env that is elsewhere. In an agent such a link is "not found". It
// reads the entries of the project's directory, and of the programs of the virtual environments there, below one
// descriptor. It follows no link and changes nothing.
package outlinks
