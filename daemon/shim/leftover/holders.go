package leftover

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
)

// Holders are the processes that have one socket.
type Holders struct {
	// Guests: there are some, and each belongs to a person's shell or command, or to the command that was named.
	Guests bool
	// Task is the task that left each of them running; "" if they were left by several, or by none.
	Task string
}

// Holders returns what the processes are that have a socket. main is the first process of a command that a person
// started, or 0. A socket can be given away: what is true of some of its processes only is not returned. An error means
// that not all processes were read.
func (t *Tracker) Holders(ctx context.Context, inode uint32, main int) (Holders, error) {
	pids, err := t.Procs()
	if err != nil {
		return Holders{}, fmt.Errorf("list the agent's processes: %w", err)
	}
	if len(pids) > maxProcs {
		return Holders{}, fmt.Errorf("the agent has %d processes, of which at most %d are read", len(pids), maxProcs)
	}
	all := t.readThose(pids)
	t.mu.Lock()
	persons, left := maps.Clone(t.guest), maps.Clone(t.left)
	t.mu.Unlock()
	if p, ok := all[main]; ok && main != 0 {
		if persons == nil {
			persons = seeds{}
		}
		persons[main] = seed{start: p.start}
	}
	return holders(all, closure(all, persons), closure(all, left), func(pid int) (bool, error) { return hasSocket(ctx, t.root(), pid, inode) })
}

func holders(all, guests, left map[int]process, has func(pid int) (bool, error)) (Holders, error) {
	n, persons := 0, 0
	tasks := map[string]int{}
	for pid := range all {
		ok, err := has(pid)
		switch {
		case err != nil:
			return Holders{}, err
		case !ok:
			continue
		}
		n++
		if l, ok := left[pid]; ok {
			tasks[l.task]++
		} else if _, ok := guests[pid]; ok {
			persons++
		}
	}
	h := Holders{Guests: n > 0 && persons == n}
	for task, k := range tasks {
		if k == n {
			h.Task = task
		}
	}
	return h, nil
}

// hasSocket reports whether a process has a socket.
func hasSocket(ctx context.Context, root string, pid int, inode uint32) (bool, error) {
	dir, err := os.Open(filepath.Join(root, strconv.Itoa(pid), "fd"))
	if err != nil {
		return false, nil //nolint:nilerr // it has ended
	}
	defer dir.Close()
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for {
		if ctx.Err() != nil {
			return false, fmt.Errorf("read the open files of process %d: %w", pid, context.Cause(ctx))
		}
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if to, err := os.Readlink(filepath.Join(dir.Name(), name)); err == nil && to == want {
				return true, nil
			}
		}
		if err != nil { // that was all, or it has ended
			return false, nil
		}
	}
}
