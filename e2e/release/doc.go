// Package release tests what an administrator downloads: it makes releases of this tree by "make release", in
// directories of their own, and compares, measures and unpacks them. It installs nothing; e2e/systemd does.
package release
