package agent

// TakeCounters takes the costly counters of an agent from last, if no process of the agent ran since
// last was measured, and reports whether it did: without a process that ran there were no system
// calls, and what came by the network was not read. Reading these counters costs most of a
// measurement. The processor time of v must have been measured. last may be nil.
func (v *Living) TakeCounters(last *Living) bool {
	if last == nil || last.Err != nil || !last.Created.Equal(v.Created) || last.Generation != v.Generation || last.InitPID != v.InitPID || last.PID != v.PID || last.Sample.CPU != v.Sample.CPU {
		return false
	}
	v.Began, v.Sample.Calls, v.Sample.Net = last.Began, last.Sample.Calls, last.Sample.Net
	return true
}
