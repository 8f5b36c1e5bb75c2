// Package fusectl reads and ends single FUSE connections by the kernel's control file
// system (Documentation/filesystems/fuse/fuse.rst, "Control filesystem"). It mounts that
// nowhere, and knows nothing but the number of a connection, which is the minor number of
// the device that stat(2) and /proc/self/mountinfo give for the mount.
package fusectl
