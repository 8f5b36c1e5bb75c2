package agent

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// opWait bounds how long an operation waits for the one before it.
const opWait = time.Minute

// opLock admits one operation of an agent at a time, in the order of arrival. The zero value is
// not held.
type opLock struct {
	once sync.Once
	sem  *semaphore.Weighted
}

func (l *opLock) semaphore() *semaphore.Weighted {
	l.once.Do(func() { l.sem = semaphore.NewWeighted(1) })
	return l.sem
}

// Acquire waits for its turn until ctx ends, at most a minute. A lock that is free is acquired
// even if ctx has ended: cleaning up must not fail for that.
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

// Lock acquires a lock that no operation holds for long, as at the start.
func (l *opLock) Lock() { _ = l.semaphore().Acquire(context.Background(), 1) } // Background never ends

// Unlock admits the next operation.
func (l *opLock) Unlock() { l.semaphore().Release(1) }
