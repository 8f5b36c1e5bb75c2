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
// What the rules say (see plan.go, which is pure and tested against golden text
// and against the kernel's own listing):
//
//   - an agent reaches, masqueraded behind the host, what its [Gate] lets out:
//     the internet, nothing, or networks and the addresses that its resolver
//     told for allowed names (package egress); a gate is closed until it is set;
//   - it has no more connections to there at a time than its gate says, so that it
//     cannot fill the table in which the kernel keeps those of all;
//   - agents do not reach each other: the bridge ports are isolated and routing
//     between them is refused;
//   - agents reach no address of the host, no other daemon's agents, no
//     link-local or cloud metadata address;
//   - a packet that does not carry the agent's own address is dropped at its
//     veth, and so is all IPv6;
//   - nobody outside opens a connection into an agent; port maps do that.
//
// Table and chains are replaced in one transaction whenever an agent comes or
// goes. What belongs to a gate is left as it is then: the chain egress_LINK, with
// what the policy accepts, the set names_LINK, with addresses and how long each is
// open, the chain tell_LINK, with the queue where refusals are told, and the chain
// count_LINK, with how many connections there may be and are. The agent's shim
// alone writes them, without a lock: what it does is one transaction, too. What is
// refused goes by a queue first ([Refusals]), so that who is refused can be found
// while it waits.
//
// The kernel is the truth. Which agents exist, which address each has and
// whether this package switched ip_forward on is read from interface aliases
// and namespace files, never from a file of state, so a daemon that was killed
// half way finds and heals what it left; a gate is its own truth, and stays open
// or closed while no daemon lives.
//
// It never changes anything global but net.ipv4.ip_forward, and never touches
// another program's table, bridge, route or chain. It knows nothing of
// sandboxes, policies or processes.
//
// Lock order: Bridge.turn (one change at a time within the process), then the
// lock file (one change at a time on the machine). NS, the forwarders, Watcher
// and DNS take neither; each has a private mutex that is held over no system
// call that can block.
package netbridge
