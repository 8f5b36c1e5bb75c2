// Package failpoint ends the daemon where a test wants it to: programs built
// with the tag failpoint kill themselves at a named step, those that are shipped
// have none of it. It is a leaf that knows no step and no agent.
//
// With the tag, POLIS_FAILPOINT names a file. Every step that is reached is
// appended to that file with .log; when the file itself holds the step's name,
// it is removed and the process ends by SIGKILL.
package failpoint
