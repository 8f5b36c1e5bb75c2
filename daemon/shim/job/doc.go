// Package job runs one command in a sandbox that a shim makes for it and removes afterwards: what an
// agent wrote never runs outside of a sandbox.
//
// It owns the spec file and the result file of the shim. The caller makes the directories that the
// spec names, and calls Shims.Clear before and after Run: a crash can leave a shim that runs.
//
// It knows neither agents nor what the command is for. Callers are packages check and setup.
package job
