// Package walk opens files by paths on which other users than root own directories.
//
// It owns the rules by which root resolves such a path, one descriptor at a time: a user who owns a directory on the
// way can exchange what is in it at any moment, also for a link, and must not lead root to what that user cannot
// reach. The callers use the descriptors, and never the paths again.
//
// It reads the file system and changes nothing. It starts no program, holds no lock, and knows no agent.
package walk
