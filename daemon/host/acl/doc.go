// Package acl encodes, decodes and evaluates POSIX access control lists (acl(5)), as the kernel stores them in
// the attribute system.posix_acl_access.
//
// It owns the format and the order in which the kernel evaluates the entries. It decides no access: the caller says
// who may do what. It never changes a default list.
package acl
