package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wings are the folders of daemon/, from the ground to the roof: a package imports packages of its own wing, of lower
// rows, and of internal. Wings of one row do not know each other.
var wings = [][]string{
	{"api"},                    // the words
	{"host", "store", "rules"}, // facts of this machine; the files polisd keeps; what a program may do
	{"gateway"},                // model services and HTTP, in the shim
	{"config"},                 // what the administrator wrote
	{"git", "http"},            // the repository on disk; what listens for people and programs
	{"history", "patrol"},      // what was; observed against wanted
	{"shim"},                   // one agent in a process of its own
	{"merge", "agent"},         // from a branch to the target or a remote; agents, and what each is given
	{"launch"},                 // starts, finds, watches and ends shims; gives each its spec
	{"workspace"},              // one repository under polis
}

// row returns the row of a package's wing. The packages of internal are below all, and package daemon is above all.
func row(t *testing.T, rel string) (n int, wing string) {
	switch {
	case under(rel, "internal"):
		return -1, "internal"
	case rel == "daemon":
		return len(wings), "daemon"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(rel, "daemon/"), "/")
	for n, row := range wings {
		for _, wing := range row {
			if name == wing {
				return n, wing
			}
		}
	}
	t.Errorf("%s is in no wing: a package of daemon/ is in one of the folders of wings_test.go", rel)
	return len(wings), name
}

// TestWings: a package is in a wing, and imports no package of a wing that is above its own or beside it.
func TestWings(t *testing.T) {
	for _, p := range list(t, "1", "./daemon/...", "./internal/...") {
		n, wing := row(t, p.rel())
		for _, imp := range p.Imports {
			if !underAny(imp, module+"/daemon", module+"/internal") {
				continue
			}
			m, other := row(t, strings.TrimPrefix(imp, module+"/"))
			if other != wing && m >= n {
				t.Errorf("%s imports %s: %s is not below %s", p.ImportPath, imp, other, wing)
			}
		}
	}
}

// TestWingsHaveACaption: each folder says in its doc.go what it is for.
func TestWingsHaveACaption(t *testing.T) {
	for _, row := range wings {
		for _, wing := range row {
			b, err := os.ReadFile(filepath.Join(root(t), "daemon", wing, "doc.go"))
			require.NoError(t, err)
			require.Contains(t, string(b), "// Package "+wing+" ")
		}
	}
}
