// Package sessionbus gives a test what a login gives a user: a session bus at the path where programs look for it, and
// a program at the bus that shows notifications.
//
// It is for tests only. What it makes ends with the test, which fails if the user has a session already.
package sessionbus
