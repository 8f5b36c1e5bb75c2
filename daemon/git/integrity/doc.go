// Package integrity decides whether the shared repository of a workspace is damaged, and what a
// damaged one means for the workspace: nothing is added, merged or maintained until a check finds it
// complete again.
//
// A [Record] owns the result of the last check. It reports a changed result once, as a log message
// and an event. An error that is not damage, such as a time-out, changes nothing. Package git runs
// the check. This package repairs nothing and removes nothing. Its lock is held for no call.
package integrity
