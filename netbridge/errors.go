package netbridge

import "errors"

var (
	// ErrInvalidName: the agent's name cannot be a file name and an interface alias.
	ErrInvalidName = errors.New("invalid agent name")
	// ErrNoSubnet: every subnet of the pool overlaps a route or address of the host.
	ErrNoSubnet = errors.New("no free subnet in the address pool")
	// ErrNoAddress: the instance's subnet has no address left.
	ErrNoAddress = errors.New("no free address in the subnet")
	// ErrNotReady: the bridge is not there; EnsureShared comes first.
	ErrNotReady = errors.New("bridge is not set up")
	// ErrForeignLink: an interface with our name exists that another program made.
	ErrForeignLink = errors.New("interface belongs to another program")
	// ErrNotNetNS: the file is not a network namespace other than the caller's own.
	ErrNotNetNS = errors.New("not a network namespace of an agent")
	// ErrClosed: the NS, Forwarder or DNS was closed.
	ErrClosed = errors.New("closed")
	// ErrPortInUse: the external port is taken by another program.
	ErrPortInUse = errors.New("port is in use")
	// ErrPortRange: the port is outside the allocator's range.
	ErrPortRange = errors.New("port is outside the range")
	// ErrNoSuchAddress: the address to bind a map to is not one of the host.
	ErrNoSuchAddress = errors.New("not an address of this host")
	// ErrNoPorts: every port of the range is taken.
	ErrNoPorts = errors.New("no free port in the range")
	// ErrNoQueue: the kernel has neither nft_queue nor xt_NFQUEUE, or there is no such agent.
	ErrNoQueue = errors.New("the kernel cannot queue packets to programs (no nft_queue, no xt_NFQUEUE)")
	// ErrNoConnlimit: the kernel has no nft_connlimit, or there is no such agent.
	ErrNoConnlimit = errors.New("the kernel does not count connections (no nft_connlimit)")
	// ErrNoBarrier: the kernel has neither clsact nor cls_bpf.
	ErrNoBarrier = errors.New("the kernel cannot filter at the bridge (no sch_ingress or no cls_bpf)")
	// ErrBusy: the machine-wide network lock was not free in time.
	ErrBusy = errors.New("network lock is held by another process")
)
