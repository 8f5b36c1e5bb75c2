package opens

import (
	"syscall"

	"polis/fusefs"
)

// Tee returns an auditor that gives every record to all of these, in their order; nil if there are none.
// An operation that one of them refuses is recorded by none.
func Tee(all ...fusefs.Auditor) fusefs.Auditor {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return tee(all)
}

type tee []fusefs.Auditor

func (t tee) Reserve() syscall.Errno {
	for i, a := range t {
		if e := a.Reserve(); e != 0 {
			t[:i].Release()
			return e
		}
	}
	return 0
}

func (t tee) Release() {
	for _, a := range t {
		a.Release()
	}
}

func (t tee) Record(c fusefs.Caller, op fusefs.Op, write bool, targets ...fusefs.Target) {
	for _, a := range t {
		a.Record(c, op, write, targets...)
	}
}
