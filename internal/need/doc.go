// Package need skips a test on a machine that lacks what the test needs, and fails it in CI, where a
// skipped test has tested nothing. Only tests import it.
package need
