// Package main is a small ACP agent for the tests. Its prompt is a script with one step on each
// line:
//
//	say TEXT        sends a message
//	edit FILE TEXT  requests a permission, then writes the file
//	run COMMAND     requests a permission, then runs the command in a shell
//	ask             makes a request with an option of an unknown kind
//	files           tries to read a file through the client
//	wait            waits until the turn is cancelled
//	refuse          ends the turn with a refusal
//
// A step that is not permitted is skipped, and a message reports it.
package main
