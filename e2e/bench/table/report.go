package table

import (
	"math"
	"slices"
	"time"
)

// Native is the column the others are compared with.
const Native = "native"

// Floor is the column of a server that does nothing: about the minimum for a file server of this
// kind.
const Floor = "floor"

// Figure is the cost of one piece of work: the best of a round's repetitions.
type Figure struct {
	Wall time.Duration `json:"wall_ns"`
	// Client is the CPU time of the programs, Server that of the processes
	// that serve the file system.
	Client time.Duration `json:"client_cpu_ns"`
	Server time.Duration `json:"server_cpu_ns"`
}

// CPU is what it took of the machine.
func (f Figure) CPU() time.Duration { return f.Client + f.Server }

// Sample is one column of one round.
type Sample struct {
	Figure
	// Single is the figure of the same work done once, alone, if the sample is of several at once.
	Single *Figure `json:"single,omitempty"`
}

// Goal is the quantity that the Limit of a Row limits.
type Goal string

// The kinds of goals.
const (
	// Ratio is wall time as a multiple of native's.
	Ratio Goal = "ratio"
	// Added is the time that an operation may take longer than native, in microseconds.
	Added Goal = "added us"
	// Growth is the CPU ratio to native of one piece of work among several
	// at once, as a multiple of the CPU ratio of the same work alone.
	Growth Goal = "growth"
)

// Row is one kind of work.
type Row struct {
	Name string `json:"name"`
	// Ops is the number of operations of a figure, 0 if they are not shown one by one.
	Ops int `json:"ops,omitempty"`
	// AtOnce is the number of agents that did the work at the same time, 0 for one.
	AtOnce int `json:"at_once,omitempty"`
	// Limit is the goal for the view, 0 if there is none.
	Limit float64 `json:"goal,omitempty"`
	Kind  Goal    `json:"goal_kind,omitempty"`
	// Peers are the figures of other columns on the machine on which the goal was set, in the
	// goal's unit. Empty if the goal does not depend on the machine.
	Peers  map[string]float64  `json:"peers_then,omitempty"`
	Rounds []map[string]Sample `json:"rounds"`
}

// Report is a whole run.
type Report struct {
	Machine string   `json:"machine"`
	Load    string   `json:"load"`
	Corpus  string   `json:"corpus"`
	Columns []string `json:"columns"`
	// Subject is the column that the goals are for.
	Subject string `json:"subject"`
	Rows    []Row  `json:"rows"`
}

// Median of nothing is 0.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// over is the median of f over the rounds in which both columns were measured.
func (r Row) over(col string, f func(one, native Sample) (float64, bool)) float64 {
	var x []float64
	for _, round := range r.Rounds {
		one, ok := round[col]
		native, ok2 := round[Native]
		if !ok || !ok2 {
			continue
		}
		if v, ok := f(one, native); ok {
			x = append(x, v)
		}
	}
	return Median(x)
}

// has reports whether a column was measured.
func (r Row) has(col string) bool {
	return slices.ContainsFunc(r.Rounds, func(round map[string]Sample) bool { _, ok := round[col]; return ok })
}

func quotient(a, b time.Duration) (float64, bool) {
	if b <= 0 {
		return 0, false
	}
	return float64(a) / float64(b), true
}

// Seconds is the median wall time of a column.
func (r Row) Seconds(col string) float64 {
	return r.over(col, func(one, _ Sample) (float64, bool) { return one.Wall.Seconds(), true })
}

// Wall is the median ratio of wall times.
func (r Row) Wall(col string) float64 {
	return r.over(col, func(one, native Sample) (float64, bool) { return quotient(one.Wall, native.Wall) })
}

// CPU is the median ratio of CPU times, programs and servers together.
func (r Row) CPU(col string) float64 {
	return r.over(col, func(one, native Sample) (float64, bool) { return quotient(one.CPU(), native.CPU()) })
}

// AddedMicros is what an operation takes longer than native, in microseconds.
func (r Row) AddedMicros(col string) float64 {
	return r.over(col, func(one, native Sample) (float64, bool) {
		return float64(one.Wall-native.Wall) / float64(time.Microsecond) / float64(max(r.Ops, 1)), true
	})
}

// PerCore is the CPU time of one piece of work among several at once, as a
// multiple of what it takes alone.
func (r Row) PerCore(col string) float64 {
	return r.over(col, func(one, _ Sample) (float64, bool) { return one.perCore(r.AtOnce) })
}

func (s Sample) perCore(n int) (float64, bool) {
	if s.Single == nil {
		return 0, false
	}
	return quotient(s.CPU()/time.Duration(max(n, 1)), s.Single.CPU())
}

// Growth is PerCore beside native's.
func (r Row) Growth(col string) float64 {
	return r.over(col, func(one, native Sample) (float64, bool) {
		a, ok := one.perCore(r.AtOnce)
		b, ok2 := native.perCore(r.AtOnce)
		if !ok || !ok2 || b == 0 {
			return 0, false
		}
		return a / b, true
	})
}

// Here returns the goal for this machine. It is to the figures of the peers in this run as Limit is
// to their figures when it was set. (The cost of a request to another process, compared with a
// system call, differs by a factor of four between virtual machines.) It is Limit without peers,
// and never less: a slow disk makes every ratio look better.
func (r Row) Here() float64 {
	sum, n := 0.0, 0
	for col, then := range r.Peers {
		if now := r.Measured(col); now > 0 && then > 0 {
			sum += math.Log(now / then)
			n++
		}
	}
	if n == 0 {
		return r.Limit
	}
	return max(r.Limit, r.Limit*math.Exp(sum/float64(n)))
}

// Measured is the figure that the row's goal limits.
func (r Row) Measured(col string) float64 {
	switch r.Kind {
	case Added:
		return r.AddedMicros(col)
	case Growth:
		return r.Growth(col)
	default:
		return r.Wall(col)
	}
}
