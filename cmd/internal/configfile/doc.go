// Package configfile changes the configuration file of polisd: read, change, check and replace, under a lock,
// so that no change of another polisctl is lost. The new content is complete on disk before it replaces the old one in one step;
// owner, group and mode stay. Symbolic links are resolved: the file that a link leads to is changed, and the link stays.
//
// Root changes no file in a directory that another user can write: such a user could exchange it. The package knows no
// TOML: the caller's functions edit and check the text.
//
// The lock is a file beside the configuration that only its maker can open, and that is removed after the change.
//
// Lock order: it is the only lock.
package configfile
