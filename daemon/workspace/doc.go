// Package workspace has no code: its folders decide about one repository under polis: where it is, who owns it, which
// daemon serves it, and what of it an agent would see differently.
package workspace
