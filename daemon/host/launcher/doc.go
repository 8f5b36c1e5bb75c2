// Package launcher starts and stops shims, so that they outlive the daemon:
// as polis-agent@ units where systemd runs polisd, by a double fork into a
// session of their own elsewhere. It knows process numbers and units, no agent's business.
package launcher
