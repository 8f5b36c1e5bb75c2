package home

import (
	"errors"
	"os"
	"strings"

	"polis/daemon/config"
)

// The section of a file for a model that leads to the text of polis.
const (
	sectionBegin = "<!-- polis: begin -->"
	sectionEnd   = "<!-- polis: end -->"
)

// context makes the file that the agent's program reads for its model: a link to the text of polis
// or, in a file that the agent has there, a section that names it.
func (c *copies) context(rel string) error {
	fi, err := c.root.Lstat(rel)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := c.parents(rel); err != nil {
			return err
		}
		if err := c.root.Symlink(c.ContextPath, rel); err != nil {
			return err
		}
		return c.root.Lchown(rel, c.UID, c.GID)
	case err != nil:
		return err
	case fi.Mode()&os.ModeSymlink != 0:
		if to, err := c.root.Readlink(rel); err != nil || to != c.ContextPath {
			return errors.Join(err, errOwn)
		}
		return nil
	}
	return c.refresh(config.HomeFile{Path: rel}, "")
}

// withSection is a text with the section in it, once.
func withSection(text []byte, path string) []byte {
	section := sectionBegin + "\n# polis\n\nYou work in a sandbox of polis. Read " + path + " first: where you are, what you may write, what to do about a refusal.\n" + sectionEnd
	before, rest, ok := strings.Cut(string(text), sectionBegin)
	if ok {
		if _, after, ended := strings.Cut(rest, sectionEnd); ended {
			return []byte(before + section + after)
		}
	}
	if s := strings.TrimRight(string(text), "\n"); s != "" {
		return []byte(s + "\n\n" + section + "\n")
	}
	return []byte(section + "\n")
}
