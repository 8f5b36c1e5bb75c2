// Package foreign reads what other tools for parallel agents have configured in a project (conductor.json, Claude
// Code's settings, the settings of sandbox-runtime, devcontainer.json), and returns for each setting what polis has
// for it, or that it has nothing.
//
// The files belong to the project and can have any content: the package reads regular files of a bounded size below
// directories that the caller has opened, and executes nothing. It changes nothing.
package foreign
