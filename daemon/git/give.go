package git

import (
	"context"
	"slices"
	"strings"
)

// Give adds objects of r to own, a directory of objects of the same owner.
func (r Repo) Give(ctx context.Context, own string, ids []string) error {
	held, err := Holds(own, ids)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return held[id] })
	if len(ids) == 0 {
		return nil
	}
	// They are found through own already, so git would not copy them one by one.
	return pipe(ctx, r, Repo{Runner: r.Runner, Dir: r.Dir, Objects: own}, strings.NewReader(strings.Join(ids, "\n")+"\n"))
}
