package delegate

import (
	"cmp"

	"polis/daemon/api"
)

// What an agent keeps for itself in any case: with less its program does nothing.
const (
	minMemoryMB = 16
	minPids     = 8
	minDiskMB   = 1
	minFiles    = 16
)

// Budget is what an agent and its workers may use together: an agent gives its workers a part of its
// own limits. Memory is always limited; the others are if they are above 0.
type Budget struct{ MemoryMB, Pids, DiskMB, DiskFiles int }

// BudgetOf returns the limits that agents share with their workers.
func BudgetOf(memoryMB int, l api.Limits) Budget {
	return Budget{memoryMB, l.Pids, l.DiskMB, l.DiskFiles}
}

// Over replaces the shared ones of limits.
func (b Budget) Over(l api.Limits) api.Limits {
	l.Pids, l.DiskMB, l.DiskFiles = b.Pids, b.DiskMB, b.DiskFiles
	return l
}

var least = Budget{minMemoryMB, minPids, minDiskMB, minFiles}

// each combines the fields of budgets.
func each(f func(b, o, least int) int, b, o Budget) Budget {
	return Budget{f(b.MemoryMB, o.MemoryMB, least.MemoryMB), f(b.Pids, o.Pids, least.Pids), f(b.DiskMB, o.DiskMB, least.DiskMB), f(b.DiskFiles, o.DiskFiles, least.DiskFiles)}
}

// Plus adds up what workers have.
func (b Budget) Plus(o Budget) Budget {
	return each(func(b, o, _ int) int { return max(b, 0) + max(o, 0) }, b, o)
}

// Exceeds reports whether some limit is above that of another budget.
func (b Budget) Exceeds(o Budget) bool {
	more := func(b, o int) bool { return o > 0 && (b <= 0 || b > o) }
	return more(b.MemoryMB, o.MemoryMB) || more(b.Pids, o.Pids) || more(b.DiskMB, o.DiskMB) || more(b.DiskFiles, o.DiskFiles)
}

// Own returns what is left for the agent itself when its workers have lent. It is never nothing,
// which would be no limit: see [Budget.Covers].
func (b Budget) Own(lent Budget) Budget {
	return each(func(b, lent, least int) int {
		if b <= 0 {
			return b
		}
		return max(b-lent, min(b, least))
	}, b, lent)
}

// Rest returns the most that one more worker can have. A field that is below 0 leaves nothing.
func (b Budget) Rest(lent Budget) Budget {
	return each(func(b, lent, least int) int {
		if b <= 0 {
			return 0
		}
		return cmp.Or(b-lent-least, -1)
	}, b, lent)
}

// Covers reports whether workers can have lent of it, with the least for the agent itself. If not, it
// returns the name of the limit.
func (b Budget) Covers(lent Budget) (short string, ok bool) {
	for _, f := range []struct {
		name           string
		b, lent, least int
	}{{"memory_limit_mb", b.MemoryMB, lent.MemoryMB, least.MemoryMB}, {"pids", b.Pids, lent.Pids, least.Pids},
		{"disk_mb", b.DiskMB, lent.DiskMB, least.DiskMB}, {"disk_files", b.DiskFiles, lent.DiskFiles, least.DiskFiles}} {
		if f.b > 0 && f.lent > 0 && f.lent+f.least > f.b {
			return f.name, false
		}
	}
	return "", true
}

// Share returns what each of n workers gets if it wants nothing else: as much as each other, and as
// much as the agent itself, of what is left.
func (b Budget) Share(lent Budget, n int) Budget {
	return each(func(b, rest, least int) int {
		if b <= 0 {
			return 0
		}
		return min(max(b/(n+1), least), rest)
	}, b, b.Rest(lent))
}

// Shrink returns what a worker with this budget keeps when all workers of an agent have lent, and the
// agent has only total: the same part less for each of them.
func (b Budget) Shrink(lent, total Budget, n int) Budget {
	share := each(func(total, _, least int) int { return max(total-max(total/(n+1), least), 0) }, total, total)
	part := func(b, lent, share, total, least int) int {
		if total <= 0 || b <= 0 || lent <= 0 || lent+least <= total {
			return b
		}
		return max(int(int64(b)*int64(share)/int64(lent)), min(b, least))
	}
	return Budget{part(b.MemoryMB, lent.MemoryMB, share.MemoryMB, total.MemoryMB, least.MemoryMB), part(b.Pids, lent.Pids, share.Pids, total.Pids, least.Pids),
		part(b.DiskMB, lent.DiskMB, share.DiskMB, total.DiskMB, least.DiskMB), part(b.DiskFiles, lent.DiskFiles, share.DiskFiles, total.DiskFiles, least.DiskFiles)}
}
