// Package netbridge gives every agent a network of its own on one machine.
//
// It owns, per daemon instance: one Linux bridge, one nftables table of family
// inet, one subnet out of a pool, and per agent a network namespace (a
// bind-mounted nsfs file) with a veth pair into the bridge. It also owns what
// reaches into such a namespace from outside: [NS] makes sockets in it,
// [Forwarder] and [UDPForwarder] map a port of the host to a port of the agent,
// [Watcher] notices new listeners, [DNS] answers names on the agent's own
// 127.0.0.53.
//
// The rules (plan.go, which is pure and tested against golden text and against
// the kernel's own listing):
//
//   - an agent reaches, masqueraded behind the host, what its [Gate] lets out:
//     the internet, nothing, or networks and the addresses that its resolver
//     returned for allowed names (package egress); a gate is closed until it is set;
//   - the gate limits its simultaneous connections, so that one agent cannot fill
//     the connection tracking table that all share;
//   - agents do not reach each other: the bridge ports are isolated and routing
//     between them is refused;
//   - agents reach no address of the host, no other daemon's agents, no
//     link-local or cloud metadata address; a [HostPort] relays one port of the
//     host's loopback from outside of these rules;
//   - a packet that does not carry the agent's own address is dropped at its
//     veth, and so is all IPv6;
//   - no connection enters an agent's namespace from outside; port maps make
//     their own from inside.
//
// Table and chains are replaced in one transaction whenever an agent comes or
// goes. The chains and the set of a gate are kept: egress_LINK accepts what the
// policy allows, names_LINK has the open addresses with their time-outs, log_LINK
// sends refused packets to a queue, and connlimit_LINK counts and limits
// connections. Only the agent's shim writes them, without a lock: each of its
// changes is one transaction, too. A refused packet passes a queue first
// ([Refusals]), so that the program that sent it can be found while it waits.
//
// Other programs and administrators change the network, too. The barrier (barrier.go), a
// filter of the bridge that is not part of nftables, drops what the chain of the agent's link
// has not marked, so that agents are closed when the table is lost. [Bridge.Keep]
// follows the kernel's notifications and restores what differs from the plan; each rule has a
// tag (tags.go) by which it is recognised.
//
// The kernel is the truth. Which agents exist, which address each has and
// whether this package switched ip_forward on is read from interface aliases
// and namespace files, never from a file of state, so a daemon that was killed
// half way finds and repairs what it left. A gate stays open or closed while no
// daemon runs.
//
// It never changes anything global but net.ipv4.ip_forward. Where others' rules of policy
// routing would lead packets to agents elsewhere, it adds one for its own subnet
// (wayback.go). It never touches
// another program's table, bridge, route or chain. It does not know sandboxes,
// policies or processes.
//
// Lock order: Bridge.turn (one change at a time within the process), then the
// lock file (one change at a time on the machine). NS, the forwarders, Watcher
// and DNS take neither; each has a private mutex that is held over no system
// call that can block.
package netbridge
