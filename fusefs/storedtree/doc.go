// Package storedtree serves a directory tree whose files are objects of a content-addressed store: it owns one
// read-only mount, and knows neither an agent nor where the objects are.
//
// No byte is given to a reader that does not match the hash of its file. Open reads the whole object
// once, compares it with its hash and notes the hash of each part of it; a read compares the part again,
// so that an object that is damaged between the two, or while it is open, is EIO. The noted hashes of a
// bounded number of objects are kept for the next open. The kernel caches what was read.
//
// With Rules, a path that they hide does not exist, and one that they do not let be read cannot be opened; they
// count at once when they change, also for files that are open (RulesChanged).
//
// The tree is fixed when it is mounted. Every operation that would change something is EROFS. Files
// cannot be executed, devices do not exist, and set-user-ID bits have no effect.
//
// Lock order: FS.mu is a leaf.
package storedtree
