package overlayfs

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// below returns where a directory of a layer continues in the layers below: nil if nowhere. It is called
// path in from.
func (t *Tree) below(fd int, from at, path string) (at, string, error) {
	if is, err := noted(fd); err != nil || !is {
		return from, path, err
	}
	opaque, err := xattr(fd, "trusted.overlay.opaque")
	if err != nil || opaque == "y" {
		return nil, "", err
	}
	redirect, err := xattr(fd, "trusted.overlay.redirect")
	switch {
	case err != nil:
		return nil, "", err
	case strings.HasPrefix(redirect, "/"):
		return t.layers, strings.TrimPrefix(redirect, "/"), nil
	case redirect != "":
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			redirect = path[:i+1] + redirect
		}
		return from, redirect, nil
	}
	return from, path, nil
}

// noted reports whether a directory can have an attribute that matters for the layers below it.
func noted(fd int) (bool, error) {
	var names [512]byte
	n, err := unix.Flistxattr(fd, names[:])
	switch {
	case errors.Is(err, unix.ERANGE): // more names than fit
		return true, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, nil
	case err != nil:
		return false, err
	}
	list := string(names[:n])
	return strings.Contains(list, "trusted.overlay.opaque\x00") || strings.Contains(list, "trusted.overlay.redirect\x00"), nil
}

// xattr returns an attribute of a directory, "" if it has none.
func xattr(fd int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Fgetxattr(fd, name, buf)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return "", nil
	case err != nil:
		return "", err
	}
	return string(buf[:n]), nil
}
