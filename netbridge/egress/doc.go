// Package egress decides where an agent's packets may go: everywhere ("open"),
// nowhere ("none"), or to a list of domain names and IPv4 networks.
//
// It is pure: it reads names and addresses and decides. What enforces the
// decision is in package netbridge: the resolver that answers allowed names
// only, and the rules that let a packet out only to an address that was handed
// out for one.
package egress
