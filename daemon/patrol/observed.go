package patrol

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/patrol/verdict"
)

// Sample are an agent's counters at a moment. All but the processor time are bytes or numbers of
// operations. All but Calls only grow while the agent's sandbox lives.
type Sample struct {
	CPU    time.Duration // of the processes in its sandbox
	Output int64         // printed by its program
	Reads  int64         // operations of its view
	Writes int64
	Disk   uint64 // bytes read from and written to disks
	Stored uint64 // of these, bytes written
	// Calls are the bytes that its processes now read and wrote by system calls, files, pipes and
	// terminals alike: what goes through a passthrough descriptor is in no other counter.
	Calls uint64
	Net   uint64 // bytes received and sent, without its loopback
	// Refs and Ports are fingerprints of its HEAD and refs, and of the ports it listens on. Only
	// their difference counts.
	Refs, Ports uint64
}

// Observed is what the kernel, the shim and the records report of an agent.
type Observed struct {
	Agent, Workspace string
	// Created is when the agent was added: another agent can get its name, and its generations
	// begin again.
	Created    time.Time
	Generation uint64
	Status     api.Status
	// Shim is true if the agent's shim lives, Program if its main command does.
	Shim, Program bool
	// PID is the process of that command, Began when it began, in clock ticks since the machine
	// started (proc_pid_stat(5)): the kernel gives numbers of processes out again.
	PID   int
	Began uint64
	// Task is the task that the command is, Ended how its record says that it ended; empty if it
	// has not.
	Task    string
	Ended   api.TaskEnd
	EndedAt time.Time
	Sample  Sample
	// Waits is when its shim reported last that it waits, such as for a person's answer; zero if it waits for nothing.
	Waits time.Time
	// Progress is what the shim saw of its progress; nil: an earlier shim does not report it.
	Progress *wire.Progress
	// Err is why the rest could not be observed.
	Err error
}

// Limits say after which time a state is a finding. 0 is never.
type Limits struct {
	verdict.Limits
	Done time.Duration // its task has ended, its program not (seed 004: 60 s)
}

const (
	// quietNet is how many bytes in a window count as silence: neighbour discovery and the
	// keepalives of some connections take less.
	quietNet = 4096
	// quietIO is the same for what it reads and writes besides its output: the event loops of programs that
	// wait write to themselves.
	quietIO = 64 << 10
	// looks is in how many consecutive looks a dead shim or program must be seen: their ends are
	// events, which are handled by themselves.
	looks = 2
)
