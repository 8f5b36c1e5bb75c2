// Package totals decides when the limits of all agents together ([limits.total]) are applied and
// lifted. Only limits that polis set are lifted: an administrator can have set others. A mark file,
// which outlives the daemon, records that polis did.
//
// It owns the mark. Its caller knows which control group the limits are of, and sets them. One
// operation runs at a time; the lock is held while the limits are set.
package totals
