package leftover

// Origin is where a process comes from.
type Origin int

const (
	// Unknown: the process has ended, or its ancestors change too quickly to be read.
	Unknown Origin = iota
	// Agents: it is of a command of the agent, of one that polisd runs for it, or of what such a command left running.
	Agents
	// Persons: it is of a person's shell or command in the sandbox.
	Persons
	// Outside: it is no process of the sandbox.
	Outside
)

const (
	// maxAncestors bounds the ancestors of a process that are read, readAgain the times that they are read because one of
	// them ended meanwhile.
	maxAncestors = 256
	readAgain    = 5
)

// Roots are the processes from which those of a sandbox descend.
type Roots struct {
	Parent int // starts every command of the sandbox
	Init   int // of the sandbox
	// Main is the command of the agent that runs; 0 for none, and -1 while one is being started.
	Main int
	// Starts: Parent starts a command of polisd, which is not recorded yet.
	Starts bool
	// Adopts: Parent is also the parent of processes whose own parents have ended.
	Adopts bool
}

// Origin returns where a process comes from, and the command that Parent started which it is of (0 if that is not
// known). A person's command that is being started, and is not recorded as a Guest yet, is a person's.
func (t *Tracker) Origin(pid int, of Roots) (o Origin, command int) {
	for range readAgain {
		if o, command = t.origin(pid, of); o != Unknown {
			break
		}
	}
	return o, command
}

func (t *Tracker) origin(pid int, of Roots) (o Origin, command int) {
	if pid <= 0 {
		return Outside, 0 // not visible from here, as every process of the sandbox is
	}
	for range maxAncestors {
		p, ok := readProcess(t.root(), pid)
		if !ok {
			return Unknown, 0
		}
		if guest, own := t.guestOf(p); own {
			return Agents, guest
		} else if guest != 0 {
			return Persons, guest
		}
		switch {
		case pid == of.Init || pid == of.Main:
			return Agents, pid
		case p.parent == of.Parent && (of.Main < 0 || of.Starts || of.Adopts):
			return Agents, pid
		case p.parent == of.Parent:
			return Persons, pid
		case p.parent <= 0:
			return Outside, 0
		}
		pid = p.parent
	}
	return Unknown, 0
}

// guestOf returns the command of a person or of polisd that a process is, or whose session it is in; 0 for none. own is
// true if it is polisd's.
func (t *Tracker) guestOf(p process) (pid int, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range []int{p.pid, p.session} {
		// The kernel gives the number of a session to no other process while it has members.
		if s, ok := t.guest[pid]; ok && (s.start == p.start || pid != p.pid && s.start <= p.start) {
			return pid, s.own
		}
	}
	return 0, false
}
