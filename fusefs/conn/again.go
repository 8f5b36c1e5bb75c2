package conn

// Again mounts the file system at its mount point once more (fuse_get_tree in fs/fuse/inode.c: with the descriptor of
// a connection that is served, mount(2) attaches its file system again). The caller knows that it is mounted nowhere
// there, and still in use elsewhere.
func (c *Conn) Again() error { return c.attach() }
