package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/internal/asuser"
)

// RefDamaged is why a ref is kept whose file in the project is damaged.
const RefDamaged = "its file in the project is damaged"

// refPlan is what is done about the refs of a project in the shared repository.
type refPlan struct {
	// set are the refs that get the project's value, if they still have the one in from; "" means that a ref is absent, in
	// set as well.
	set, from map[string]string
	// later are those of set that are moved only forward: the shared repository has another value that polis did not bring.
	later []string
	// known is the record after that: what of the project the shared repository has.
	known map[string]string
	// kept are the refs of the project that the shared repository has otherwise, with the reason.
	kept map[string]string
}

// refsOf is what a plan is made of: values of refs by their full names, and "ref: NAME" for a symbolic one.
type refsOf struct {
	project, shared map[string]string
	known           map[string]string // what was brought before
	// holder returns why a ref is not the project's to move; "" if it is.
	holder func(ref string) string
}

// plan decides about each ref by three values: the project's, the one that was brought before and the present one. A
// value that an agent or a merge has changed since stays.
func (r refsOf) plan() refPlan {
	p := refPlan{set: map[string]string{}, from: map[string]string{}, known: map[string]string{}, kept: map[string]string{}}
	names := map[string]bool{}
	for _, list := range []map[string]string{r.project, r.known} {
		for name := range list {
			names[name] = true
		}
	}
	for name := range names {
		r.one(&p, name)
	}
	r.blocked(&p)
	return p
}

func (r refsOf) one(p *refPlan, name string) {
	want, has := r.project[name], r.shared[name]
	was, brought := r.known[name]
	if want == has {
		if want != "" {
			p.known[name] = want
		}
		return
	}
	if by := r.holder(name); by != "" {
		if brought && want != "" {
			p.known[name] = was
		}
		if want != "" && want != was { // else only the agent has moved it
			p.kept[name] = by
		}
		return
	}
	switch {
	case has == "", brought && has == was:
	case want == "": // what others made of it stays
		return
	case want == was:
		p.known[name] = was
		return
	default:
		p.later = append(p.later, name)
		if brought {
			p.known[name] = was
		}
	}
	p.set[name], p.from[name] = want, has
}

// blocked takes those refs out of a plan whose names cannot be beside a ref that stays: git has no a and a/b.
func (r refsOf) blocked(p *refPlan) {
	there, above := map[string]bool{}, map[string]string{}
	for name := range r.shared {
		if v, planned := p.set[name]; planned && v == "" {
			continue
		}
		there[name] = true
		for dir := range parents(name) {
			above[dir] = name
		}
	}
	for name, want := range p.set {
		if want == "" || there[name] {
			continue
		}
		by := above[name]
		for dir := range parents(name) {
			if there[dir] {
				by = dir
			}
		}
		if by != "" {
			p.drop(name, "it cannot be beside "+by)
		}
	}
	slices.Sort(p.later)
}

// drop leaves a ref as it is.
func (p *refPlan) drop(name, why string) {
	delete(p.set, name)
	delete(p.from, name)
	p.kept[name] = why
}

// parents yields the directories of a ref's name.
func parents(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			if !yield(name[:i]) {
				return
			}
		}
	}
}

// keepDamaged takes those refs out of a plan that the project has lost by damage, as after a crash: git lists no ref whose file is
// damaged, and the shared repository can have the only copy.
func (p *Project) keepDamaged(plan *refPlan) {
	dir := p.CommonDir()
	for name, want := range plan.set {
		if want != "" {
			continue
		}
		err := asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
			fi, err := os.Lstat(filepath.Join(dir, name))
			if err == nil && fi.IsDir() {
				return os.ErrNotExist // a directory of other refs
			}
			return err
		})
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			plan.known[name] = plan.from[name]
			plan.drop(name, RefDamaged)
		}
	}
}
