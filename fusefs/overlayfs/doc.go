// Package overlayfs mounts the kernel's overlayfs: a directory that is only read below a directory
// with the changes.
//
// The layers are passed to the kernel as descriptors, so their paths may contain any byte. The
// options are fixed: redirect_dir=on, because without it rename(2) of a directory of the lower
// layer fails with EXDEV; index=off, metacopy=off and nfs_export=off, because a change must copy
// the whole file and the upper layer must stay readable by tar(1) and by other kernels; xino=off,
// because inode numbers are those that a git index of the base tree has. The mount is not volatile:
// fsync(2) of a file in it is what it is on the upper file system.
//
// Tree reads the same files without a mount. The upper directory may change meanwhile.
//
// The package knows no view and no agent. It takes no lock: the caller must not mount the same
// upper directory twice (the kernel only warns about that).
package overlayfs
