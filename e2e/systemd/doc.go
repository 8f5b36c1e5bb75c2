// Package systemd tests the installed programs under a real systemd, which
// the script boot starts as process 1 of namespaces of its own. The test program runs
// twice: on the machine it boots, inside (POLIS_GUEST=1) it tests.
package systemd
