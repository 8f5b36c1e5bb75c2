package agent

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// opWait bounds how long an operation waits for the one before it.
const opWait = time.Minute

// opLock admits one operation of an agent at a time, in the order in which they came.
// The zero value is not held.
type opLock struct {
	once sync.Once
	sem  *semaphore.Weighted
}

func (l *opLock) semaphore() *semaphore.Weighted {
	l.once.Do(func() { l.sem = semaphore.NewWeighted(1) })
	return l.sem
}

// Acquire waits for its turn as long as ctx lasts, at most a minute. A lock that is not
// held is acquired also when ctx has ended: what clears up must not fail for that.
func (l *opLock) Acquire(ctx context.Context) error {
	if l.semaphore().TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	if l.semaphore().Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Lock acquires the lock of an agent that no operation can hold for long, as at the start.
func (l *opLock) Lock() { _ = l.semaphore().Acquire(context.Background(), 1) } // Background never ends

// Unlock admits the next operation.
func (l *opLock) Unlock() { l.semaphore().Release(1) }
