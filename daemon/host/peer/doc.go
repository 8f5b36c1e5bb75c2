// Package peer returns who is at the other end of a unix socket, as the kernel noted it at
// connect (SO_PEERCRED and SO_PEERGROUPS in unix(7), socket(7)). It decides nothing but
// whether that is root, this process's own user, or a member of a group.
package peer
