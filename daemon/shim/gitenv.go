package shim

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// gitConfigFile is where git of the sandbox finds what polis has to say to it.
const gitConfigFile = "/run/polis/gitconfig"

// openGitConfig writes that file. It is made anew at every start, so that a
// changed configuration of polisd holds from then on.
func (s *Shim) openGitConfig() error {
	if s.Spec.GitConfig == "" {
		return nil
	}
	return replaceFile(filepath.Join(s.boxDir(), filepath.Base(gitConfigFile)), s.Spec.GitConfig)
}

// gitEnv makes git read the file, in the agent's own worktree and nowhere
// else: what a test of the project does in repositories of its own is its own
// business. A command's settings come last, so that they hold.
func (s *Shim) gitEnv(env []string) []string {
	if s.Spec.GitConfig == "" {
		return nil
	}
	// A base type may have settings of its own in the environment.
	n := 0
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "GIT_CONFIG_COUNT="); ok {
			if c, err := strconv.Atoi(v); err == nil && c >= 0 && c < 1000 {
				n = c
			}
		}
	}
	dir := filepath.Join(s.Spec.BareRepo, "worktrees", s.Spec.Agent)
	return []string{
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=includeIf.gitdir:%s.path", n, globQuote(dir)),
		fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, gitConfigFile),
	}
}

// globQuote makes a path a pattern that matches it alone.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
