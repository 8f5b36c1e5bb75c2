package worktree

import (
	"os"
	"path/filepath"

	"polis/internal/asuser"
)

// umask is the umask(2) with which the owner's git writes in the git directory, as far as its directory of objects shows: polisd's says
// nothing about the owner's, whose files can be private, or those of a group. core.sharedRepository git does itself. nil is polisd's.
func (p *Project) umask() *int {
	dir, err := p.Open()
	if err != nil {
		return nil // git says what is wrong with the project
	}
	defer dir.Close()
	top, err := dir.Stat()
	if err != nil {
		return nil
	}
	var mask *int
	objects := filepath.Join(p.CommonDir(), "objects")
	err = asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		fi, err := os.Lstat(objects)
		if err != nil || !fi.IsDir() {
			return err
		}
		// Never what everybody can write. Below its directory git opens files to a group itself, so that the files
		// of the working tree need not be.
		of := int(^(fi.Mode().Perm()&top.Mode().Perm())&0o077 | 0o002)
		mask = &of
		return nil
	})
	if err != nil {
		return nil // git says what is wrong with the repository
	}
	return mask
}
