package lockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// contents are what is at paths.
type contents struct {
	mu    sync.Mutex
	files map[string]int
	reads atomic.Int64
}

func (f *contents) write(path string, v int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = v
}

func (f *contents) state(path string) (any, bool) {
	f.reads.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[path], path != "unknown"
}

func compares(f *contents) func(*Client) {
	return func(c *Client) {
		c.Compare = &Compare{State: f.state, Begins: func(op string) bool { return op != "unlink" }, Ends: func(op string) bool { return op == "write" }}
	}
}

func acquireFor(t *testing.T, c *Client, op string, paths ...string) *Ticket {
	t.Helper()
	tk, err := c.Acquire(t.Context(), Request{Op: op, Paths: paths})
	require.NoError(t, err)
	return tk
}

func TestALeaseUnderWhichNothingChangedEndsWithItsLastUse(t *testing.T) {
	for _, hold := range []Hold{Hold(time.Hour), HoldMerge} {
		t.Run(hold.String(), func(t *testing.T) {
			s := serve(t, socket(t))
			f := &contents{files: map[string]int{}}
			var busy atomic.Bool
			ann := join(t, s.Path, "ann", holds(hold), compares(f), func(c *Client) { c.Busy = func(p string) bool { return p == "mapped" && busy.Load() } })
			bob := join(t, s.Path, "bob", waits(0))
			free := func(path string) {
				t.Helper()
				soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 })
				acquire(t, bob, path).Done()
				bob.ReleaseAll()
				soon(t, func() bool { return len(heldPaths(s, "bob")) == 0 })
			}
			stays := func(path string) {
				t.Helper()
				require.Never(t, func() bool { return len(heldPaths(s, "ann")) == 0 }, 300*time.Millisecond, 10*time.Millisecond)
				conflict(t, bob, path)
				ann.ReleaseAll()
				free(path)
			}

			acquireFor(t, ann, "write", "f").Done()
			free("f")
			one, two := acquireFor(t, ann, "write", "f"), acquireFor(t, ann, "write", "f")
			one.Done()
			conflict(t, bob, "f") // the other one still uses it
			two.Done()
			free("f")
			acquireFor(t, ann, "write", "f").Done()
			u := ann.Use("f", "write")
			for u == nil { // released already
				acquireFor(t, ann, "write", "f").Done()
				u = ann.Use("f", "write")
			}
			u.Done()
			free("f")

			tk := acquireFor(t, ann, "write", "f")
			f.write("f", 1)
			tk.Done()
			stays("f")
			acquireFor(t, ann, "create", "f").Done() // a change that is not complete
			stays("f")
			acquireFor(t, ann, "create", "f").Done()
			acquireFor(t, ann, "write", "f").Done()
			free("f")
			acquireFor(t, ann, "unlink", "f").Done() // nobody knows what it was
			acquireFor(t, ann, "write", "f").Done()
			stays("f")
			acquireFor(t, ann, "write", "unknown").Done()
			stays("unknown")
			busy.Store(true)
			acquireFor(t, ann, "write", "mapped").Done()
			time.Sleep(50 * time.Millisecond) // as long as the kernel may need
			busy.Store(false)
			free("mapped")
			busy.Store(true)
			acquireFor(t, ann, "write", "mapped").Done()
			stays("mapped")
			busy.Store(false)
			tk = acquireFor(t, ann, "write", "f", "g")
			f.write("g", 1)
			tk.Done()
			soon(t, func() bool { return fmt.Sprint(heldPaths(s, "ann")) == "[g]" })
			stays("g")
		})
	}
}

// Whatever operations meet: what one has changed stays locked.
func TestAChangeKeepsItsLeaseWhateverElseIsUnchanged(t *testing.T) {
	s := serve(t, socket(t))
	f := &contents{files: map[string]int{}}
	ann := join(t, s.Path, "ann", holds(Hold(time.Hour)), compares(f))
	bob := join(t, s.Path, "bob", waits(0), holds(HoldClose))
	var changed [64]atomic.Bool
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 3))
			for i := range 400 {
				n := r.IntN(len(changed))
				path := fmt.Sprint("f", n)
				if worker == 0 {
					before := changed[n].Load()
					tk, err := bob.Acquire(context.Background(), Request{Op: "write", Paths: []string{path}})
					if err == nil {
						if before {
							t.Errorf("%s was changed and is free", path)
						}
						tk.Done()
					}
					continue
				}
				op := []string{"write", "write", "write", "create", "unlink"}[r.IntN(5)]
				var done func()
				if u := ann.Use(path, op); u != nil && r.IntN(2) == 0 {
					done = u.Done
				} else {
					if u != nil {
						u.Done()
					}
					tk, err := ann.Acquire(context.Background(), Request{Op: op, Paths: []string{path}})
					if err != nil {
						continue // bob has it
					}
					done = tk.Done
				}
				if r.IntN(20) == 0 {
					f.write(path, worker*1000+i+1)
					changed[n].Store(true)
				}
				done()
			}
		})
	}
	group.Wait()
	for n := range changed {
		if changed[n].Load() {
			conflict(t, bob, fmt.Sprint("f", n))
		}
	}
}
