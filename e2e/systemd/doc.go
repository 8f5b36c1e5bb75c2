// Package systemd tests the installed programs under a real systemd, which
// the script boot starts as process 1 of namespaces of its own. The test program runs
// twice: on the machine it boots, inside (POLIS_GUEST=1) it tests.
//
// With POLIS_BOOT=../vm/boot ("make e2e-vm") the systemd is that of an emulated machine with a
// kernel of its own and cgroup v2 alone; POLIS_PATIENCE then says how long it may take.
package systemd
