// Package failpoint ends the daemon where a test wants it to, or has it wait: programs built
// with the tag failpoint kill themselves or wait at a named step, those that are shipped
// have none of it. It is a leaf that knows no step and no agent.
//
// With the tag, POLIS_FAILPOINT names a file. Every step that is reached is
// appended to that file with .log; when the file itself holds the step's name,
// it is removed and the process ends by SIGKILL. When it holds "wait" and the step's name, it gets
// the suffix .waiting, and the step ends when a test removes it.
package failpoint
