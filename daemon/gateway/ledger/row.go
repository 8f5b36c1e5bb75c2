package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"polis/daemon/gateway/usage"
)

// Key is what rows are kept by.
type Key struct {
	Day     string `json:"day"` // YYYY-MM-DD in UTC
	Task    string `json:"task,omitempty"`
	Service string `json:"service"` // NAME of [models.NAME]
	Model   string `json:"model,omitempty"`
	// Currency of Micros.
	Currency string `json:"currency,omitempty"`
}

// Counts are sums over requests.
type Counts struct {
	Requests int64 `json:"requests"`
	// Errors are requests without an answer of the model: failures of the service or of the way to it.
	Errors int64 `json:"errors,omitempty"`
	// Refused are those that polis did not send, Retries those that the agent's program repeated.
	Refused int64 `json:"refused,omitempty"`
	Retries int64 `json:"retries,omitempty"`
	// Cut are answers that did not reach their end, Estimated those whose tokens are estimated.
	Cut       int64 `json:"cut,omitempty"`
	Estimated int64 `json:"estimated,omitempty"`
	usage.Tokens
	// Micros is the cost in millionths of the currency. Priced are the answers that it is of, Unpriced
	// those with tokens whose price is not configured.
	Micros   int64 `json:"micros,omitempty"`
	Priced   int64 `json:"priced,omitempty"`
	Unpriced int64 `json:"unpriced,omitempty"`
	// FirstMicros is the time to the first byte of the answers' content, in microseconds; Answers how
	// many that is of, and First how many of them took how long.
	FirstMicros int64   `json:"first_us,omitempty"`
	Answers     int64   `json:"answers,omitempty"`
	First       Buckets `json:"first,omitzero"`
}

// Bounds are the upper bounds of the times that Buckets have, in microseconds.
var Bounds = [...]int64{50_000, 100_000, 250_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 60_000_000}

// Buckets count times by Bounds; the last one has those above.
type Buckets [len(Bounds) + 1]int64

// TookFirst counts an answer by the time to its first byte.
func (c *Counts) TookFirst(micros int64) {
	i := 0
	for i < len(Bounds) && micros > Bounds[i] {
		i++
	}
	c.Answers, c.FirstMicros = Plus(c.Answers, 1), Plus(c.FirstMicros, micros)
	c.First[i] = Plus(c.First[i], 1)
}

// Plus adds, and stays at the end of the range: a sum that overflows would be a small use.
func Plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// Add adds o.
func (c *Counts) Add(o Counts) {
	for _, f := range [][2]*int64{
		{&c.Requests, &o.Requests}, {&c.Errors, &o.Errors}, {&c.Refused, &o.Refused}, {&c.Retries, &o.Retries}, {&c.Cut, &o.Cut}, {&c.Estimated, &o.Estimated},
		{&c.Input, &o.Input}, {&c.Output, &o.Output}, {&c.CacheRead, &o.CacheRead}, {&c.CacheWrite, &o.CacheWrite},
		{&c.Micros, &o.Micros}, {&c.Priced, &o.Priced}, {&c.Unpriced, &o.Unpriced}, {&c.FirstMicros, &o.FirstMicros}, {&c.Answers, &o.Answers},
	} {
		*f[0] = Plus(*f[0], *f[1])
	}
	for i, n := range o.First {
		c.First[i] = Plus(c.First[i], n)
	}
}

// Row is a key and its counts.
type Row struct {
	Key
	Counts
}

// Day returns the day of a time, as rows have it.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// MaxRows bounds the rows of one agent. Above it, the tasks of the oldest days are summed.
const MaxRows = 4096

type sums map[Key]Counts

func (s sums) add(r Row) {
	c := s[r.Key]
	c.Add(r.Counts)
	s[r.Key] = c
}

// rows returns the sums in order.
func (s sums) rows() []Row {
	out := make([]Row, 0, len(s))
	for k, c := range s {
		out = append(out, Row{k, c})
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// bound reduces the number of rows to limit: it forgets the tasks of the oldest days, then their days,
// then their models. No count is lost.
func (s sums) bound(limit int) {
	for _, forget := range []func(*Key){
		func(k *Key) { k.Task = "" },
		func(k *Key) { k.Day = k.Day[:min(len(k.Day), len("2006"))] + "-01-01" },
		func(k *Key) { k.Model = "" },
	} {
		for _, r := range s.rows() {
			if len(s) <= limit {
				return
			}
			k := r.Key
			if forget(&k); k != r.Key {
				delete(s, r.Key)
				s.add(Row{k, r.Counts})
			}
		}
	}
}
