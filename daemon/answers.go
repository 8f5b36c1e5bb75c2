package daemon

import (
	"errors"
	"os"

	"polis/daemon/api"
	"polis/daemon/store"
)

// readAnswers reads the answers that are kept for a workspace. Damaged ones are forgotten: the
// question is then a person's again.
func (d *Daemon) readAnswers(w *workspace) store.Answers {
	var k store.Answers
	read := func(path string) error { return store.ReadSummed(path, &k) }
	if err := w.git.Below(w.root.Answers(), read); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.warn(string(api.CodeStateCorrupt) + ": the remembered answers of workspace " + w.agents.Name + " cannot be read and are forgotten: " + err.Error())
		return store.Answers{}
	}
	return k
}

// SaveAnswers writes them.
func (d *Daemon) SaveAnswers(name string, k store.Answers) error {
	d.mu.Lock()
	w, ok := d.workspaces[name]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	return w.git.Below(w.root.Answers(), func(path string) error { return store.WriteSummed(path, k) })
}
