package sandbox

/*
#cgo CFLAGS: -Wall -Wextra

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

// The descriptor on which process 1 notices the end of its creator.
#define POLIS_ALIVE_FD 3
// The descriptor with which it kills the others where the kernel does not; the number of another
// file, or of none, where it does.
#define POLIS_KILL_FD 4

static void polis_reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

// The sandbox's process 1, or its replacement where processes are not in a namespace of their
// own: it reaps orphans, and exits on SIGTERM from outside or when its creator is gone, and
// everything else with it. A signal from inside has a visible sender (si_pid is 0 only from an
// outer pid namespace) and is ignored.
static void polis_init_run(int shared)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	// Same user as the agent: protect /proc/1/mem, fd and environ from it.
	prctl(PR_SET_DUMPABLE, 0);

	int sfd = signalfd(-1, &all, SFD_CLOEXEC);
	if (sfd < 0)
		_exit(70);
	// Last: the creator waits for this name, which differs from the file's.
	prctl(PR_SET_NAME, "polis:init");
	struct pollfd fds[2] = {
		{ .fd = sfd, .events = POLLIN },
		{ .fd = POLIS_ALIVE_FD, .events = 0 },
	};
	for (;;) {
		polis_reap();
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			_exit(70);
		if (fds[1].revents & (POLLHUP | POLLERR | POLLNVAL)) {
			// Without the file, or on failure, polisd cleans up.
			if (shared && write(POLIS_KILL_FD, "1", 1) < 0)
				_exit(71);
			_exit(0);
		}
		if (fds[0].revents & POLLIN) {
			struct signalfd_siginfo si;
			if (read(sfd, &si, sizeof(si)) == sizeof(si) &&
			    si.ssi_signo == SIGTERM && si.ssi_pid == 0)
				_exit(0);
		}
	}
}

// Runs before the Go runtime starts, and never returns in process 1. The name is read from /proc
// because not every C library passes arguments to constructors.
static void __attribute__((constructor)) polis_init(void)
{
	static const char name[] = "/.polis/polis-init";
	static const char shared[] = "/.polis/polis-init\0shared";
	char arg0[sizeof(shared)];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, arg0, sizeof(arg0));
	close(fd);
	if (n >= (ssize_t)sizeof(name) && memcmp(arg0, name, sizeof(name)) == 0 && getpid() == 1)
		polis_init_run(0);
	if (n == (ssize_t)sizeof(shared) && memcmp(arg0, shared, sizeof(shared)) == 0)
		polis_init_run(1);
}
*/
import "C"

import (
	"os"
	"runtime"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // joins namespaces before the Go runtime starts
)

// init keeps the first thread for the main goroutine. libcontainer sends threads into the
// sandbox's mount namespace and lets them end there; the first thread cannot end, would hold that
// namespace and every mount in it forever, and /proc/self would show it instead of the host.
func init() { runtime.LockOSThread() }

// initPath is the path of process 1's program in the sandbox. The C code above compares with it.
const initPath = "/.polis/polis-init"

// IsInit reports whether this process is the first half of a sandboxed one, and must call [Main]
// and nothing else.
func IsInit() bool {
	return len(os.Args) > 1 && os.Args[1] == "init" && os.Getenv("_LIBCONTAINER_INITPIPE") != ""
}

// Main returns at once, unless this process was started to become a process of a sandbox: then it
// does not return. Call it first in main and in TestMain.
func Main() {
	if IsInit() {
		libcontainer.Init() // exits
	}
}
