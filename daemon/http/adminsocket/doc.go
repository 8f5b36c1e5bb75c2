// Package adminsocket makes the socket of the admin API and decides which groups may connect to it.
//
// It owns the socket's mode, group and access control list. What a caller may do after it has
// connected is decided by package server. It holds no lock.
package adminsocket
