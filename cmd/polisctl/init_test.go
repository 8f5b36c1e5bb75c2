package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInitOnATerminal prompts for what no flag gives, with defaults.
func TestInitOnATerminal(t *testing.T) {
	f := newFake(t)
	repo := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module x\n"), 0o600))
	c := startOnTerminal(t, f, "init", "--repo", repo)
	c.sees("Base type of the first agent (claude) [claude]: ")
	c.types("\n")
	c.sees("such as go test ./... [none]: ")
	c.types("\n")
	c.sees("[open]: ")
	c.types("\n")
	c.sees("polisctl run claude")
	require.Equal(t, 0, c.ends())
}

func TestProjectCheck(t *testing.T) {
	for want, file := range map[string][2]string{
		"make test": {"Makefile", "all:\n\ntest: all\n"}, "npm test": {"package.json", `{"scripts": {"test": "x"}}`}, "cargo test": {"Cargo.toml", ""}, "": {"Makefile", "tests:\n"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, file[0]), []byte(file[1]), 0o600))
		require.Equal(t, want, projectCheck(dir), file[0])
	}
}

func TestConfigurationOfInit(t *testing.T) {
	a := &app{}
	e := a.configuration(initAnswers{egress: "example.org, *.example.org", check: `echo "x"`})
	e.workspace("ws")
	require.Equal(t, []configKey{{"network", "egress", `["example.org", "*.example.org"]`}, {"merge.workspaces.ws", "check", `"echo \"x\""`}}, e.sets)
	require.Equal(t, `"none"`, a.configuration(initAnswers{egress: "none"}).sets[0].value)
	require.Empty(t, a.configuration(initAnswers{egress: "open"}).sets)
}
