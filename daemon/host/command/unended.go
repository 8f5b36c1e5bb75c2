package command

import (
	"errors"
	"sync"
	"time"
)

// endTime is how long a command is waited for after it was killed: longer than drainTime.
const endTime = 5 * time.Second

// ErrUnended is that a command was killed and does not end: its user traces it and does not reap it (ptrace(2)), or
// it waits for a file system that does not answer. Until it has ended, no other one of the user is started.
var ErrUnended = errors.New("it cannot be ended")

// left are those of this process. They are no one caller's, as the children of a process are not: a user who keeps
// commands from ending has a bounded number of them, by all callers together.
var left unended

// unended are the users with commands that were killed and have not ended, and how many of them. There are at most as
// many as ran at once.
type unended struct {
	mu    sync.Mutex
	users map[uint32]int
}

func (u *unended) has(uid uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.users[uid] > 0
}

// add counts a command of a user until it has ended, for which nobody waits.
func (u *unended) add(uid uint32, ended <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users == nil {
		u.users = map[uint32]int{}
	}
	u.users[uid]++
	go func() {
		<-ended
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.users[uid]--; u.users[uid] == 0 {
			delete(u.users, uid)
		}
	}()
}
