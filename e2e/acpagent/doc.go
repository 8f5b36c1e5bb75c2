// Package main is a small ACP agent for the tests: its prompt is a script, a step a line.
//
//	say TEXT        sends a message
//	edit FILE TEXT  asks for a permission, then writes the file
//	run COMMAND     asks for a permission, then runs the command in a shell
//	ask             asks with an option of no known kind
//	files           tries to read a file through the client
//	wait            waits until the turn is cancelled
//	refuse          ends the turn by a refusal
//
// What was not permitted is skipped and said.
package main
