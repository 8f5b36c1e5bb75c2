package counters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"polis/daemon/api"
)

// slotSize is the size of a slot in bytes, and the limit of a record. A page: the kernel writes it
// whole, or not at all if the process is killed.
const slotSize = 4096

// Record is what is kept of an agent.
type Record struct {
	// Created is when the agent was added: another agent of its name has counters of its own.
	Created  time.Time      `json:"created"`
	Counters api.Counters   `json:"counters"`
	Times    api.AgentTimes `json:"times"`
	// Seq grows with each record that is written.
	Seq uint64 `json:"seq"`
}

var (
	errTooLarge = errors.New("the record exceeds its slot")
	errTorn     = errors.New("no complete record")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// encode returns a slot: the checksum of the record as eight hex digits, a space, the record as JSON,
// and spaces.
func encode(r Record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > slotSize-10 {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, len(text))
	}
	slot := bytes.Repeat([]byte{' '}, slotSize)
	slot[slotSize-1] = '\n'
	copy(slot[9:], text)
	copy(slot, fmt.Sprintf("%08x", crc32.Checksum(slot[9:], castagnoli)))
	return slot, nil
}

// decode reads a slot. It accepts nothing that encode does not produce from its result.
func decode(slot []byte) (Record, error) {
	var r Record
	if len(slot) != slotSize || slot[8] != ' ' || string(slot[:8]) != fmt.Sprintf("%08x", crc32.Checksum(slot[9:], castagnoli)) {
		return r, errTorn
	}
	if err := json.Unmarshal(slot[9:], &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", errTorn, err)
	}
	if !r.valid() {
		return Record{}, fmt.Errorf("%w: it counts less than nothing", errTorn)
	}
	return r, nil
}

// valid reports whether no number is negative, and the buckets fit their bounds.
func (r Record) valid() bool {
	c, t := r.Counters, r.Times
	all := []int64{c.ReadCount, c.WriteCount, c.ReadDenied, c.WriteDenied, c.LockConflicts, c.QuestionsDenied, c.AvgReadLatency, c.AvgWriteLatency}
	for _, h := range []api.Times{t.Reads, t.Writes, t.LeaseWaits} {
		if len(h.Counts) != 0 && len(h.Counts) != len(t.Bounds)+1 {
			return false
		}
		all = append(append(all, h.SumNanos), h.Counts...)
	}
	return slices.Min(all) >= 0
}
