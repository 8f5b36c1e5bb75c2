package shim

import (
	"cmp"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/fusefs/view"
)

// reportCalls emits events for the system calls that the sandbox denied.
func (s *Shim) reportCalls() {
	f := dedup{now: time.Now}
	later := time.NewTimer(0)
	defer later.Stop()
	for {
		var due []aggregated
		select {
		case c, ok := <-s.sandbox.Refused():
			if !ok {
				s.refusedCalls(f.rest())
				return
			}
			due = f.add(c)
		case <-later.C:
			due = f.due()
		case <-s.ctx.Done():
			s.refusedCalls(f.rest())
			return
		}
		s.refusedCalls(due)
		if next := f.next(); next.IsZero() {
			later.Stop()
		} else {
			later.Reset(time.Until(next))
		}
	}
}

// refusedCalls records calls, and how many more there were.
func (s *Shim) refusedCalls(all []aggregated) {
	for _, d := range all {
		if isProbe(d.call) {
			s.probed(callDenial(d))
		} else {
			s.denied(callDenial(d))
		}
	}
	s.missed("system call", api.CodeSyscallDenied, s.sandbox.Missed())
}

// isProbe reports whether a refused call is one that programs try at every start and do without:
// every Node program calls io_uring_setup. It is no escape attempt, and many reports of it would
// hide others.
func isProbe(c sandbox.RefusedCall) bool { return c.Call == "io_uring_setup" }

// probed records a probe. It is listed only on request, and not shown to the agent.
func (s *Shim) probed(d view.Denial) {
	s.views.probes.Add(d)
	if !s.probeEvents.pass(time.Now()) { // a program chooses its name; nobody misses them
		return
	}
	ev := s.denialEvent(d)
	ev.Data["probe"] = true
	s.events.Publish(ev)
}

// callDenial describes a refused call as a Denial.
func callDenial(f aggregated) view.Denial {
	what := f.call.Call
	if f.call.Wanted != "" {
		what += " (" + f.call.Wanted + ")"
	}
	why := reasons[f.call.Kind]
	return view.Denial{Time: f.call.Time, Op: "system call", Path: what, Within: f.call.Call, Code: string(api.CodeSyscallDenied), Errno: "EPERM",
		Rule: why.rule, Hint: cmp.Or(hints[f.call.Call], why.hint), Pid: uint32(f.call.Pid), Program: f.call.Program, Count: f.count}
}

// The rule and the hint for each kind of call.
var reasons = map[sandbox.Kind]struct{ rule, hint string }{
	sandbox.KindNamespace: {"agents make no namespaces and mount nothing: they are in a sandbox already",
		"switch the program's own sandbox off, or ask the administrator to set sandbox.user_namespaces in polisd.toml; new calls for mounts are not allowed even then"},
	sandbox.KindSocket: {"agents have unix, TCP, UDP and ping sockets, and of netlink those that show routes and sockets",
		"use one of those; no setting allows others"},
	sandbox.KindKey:      {"the kernel's keyrings are common to all that a user runs", "keep it in a file of your home directory; no setting allows keyrings"},
	sandbox.KindKernel:   {"it is a way into the kernel, or past what is allowed", "do without it; no setting allows it"},
	sandbox.KindFile:     {"it opens files past their names", "open the file by its path"},
	sandbox.KindMachine:  {"it is about the whole machine, which is not the agent's", "ask the administrator to do it on the host"},
	sandbox.KindProcess:  {"it reaches into a process that is not the agent's to change", "do without it; no setting allows it"},
	sandbox.KindTerminal: {"it pushes characters into the input of a terminal, where a shell may read them", "write to the program's standard input instead"},
}

// hints are for calls whose hint differs from their kind's.
var hints = map[string]string{
	"io_uring_setup":  "nothing: programs do without it, and use epoll",
	"perf_event_open": "measure in user space (strace, gprof, a profiler of the language), or ask the administrator to run perf on the host",
	"bpf":             "trace your own programs with strace or gdb; no setting allows bpf",
	"fanotify_init":   "use inotify",
	"syslog":          "ask the administrator for the kernel's messages (dmesg)",
	"prlimit64":       "set limits of your own processes by prlimit with the number 0, or by ulimit",
	"ptrace":          "processes are shared with the host here, so debuggers are not available",
}
