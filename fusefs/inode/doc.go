// Package inode keeps the inodes that the kernel knows of a view, and their names.
//
// It owns the table: which object of a backing root an inode number stands for, by
// which names it is known, how often the kernel has looked it up, and what is
// left of it when the last name has gone. It computes paths from names. With each
// inode it keeps what others have found out of it: the guard's verdict, what
// the kernel may keep, the state of its open files.
//
// It never makes a system call, and never decides anything: the caller changes the
// backing file system first and then says what has changed.
//
// Lock order: Table.Names, the name lock -> the mutex of the Table, which every method
// takes by itself.
package inode
