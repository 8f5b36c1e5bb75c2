package home

import (
	"cmp"

	"polis/daemon/git"
)

// identityFile is the agent's own configuration of git.
const identityFile = ".gitconfig"

// identity writes the identity of the agent's commits as its .gitconfig if it has none, and again if the identity has
// changed and the agent has left the file as it was.
func (c *copies) identity() error {
	mine, err := c.read(identityFile)
	if err != nil {
		return err
	}
	text := git.ConfigPerson("user", c.By.Author)
	if c.By.Committer != c.By.Author {
		text += git.ConfigPerson("committer", c.By.Committer)
	}
	was := c.record[identityFile]
	if mine.there && was.Wrote != sum(mine.content) || string(mine.content) == text {
		return nil
	}
	if err := c.write(identityFile, mine, []byte(text)); err != nil {
		return err
	}
	c.record[identityFile], c.dirty = copied{Owner: cmp.Or(was.Owner, absent), Wrote: sum([]byte(text))}, true
	return nil
}
