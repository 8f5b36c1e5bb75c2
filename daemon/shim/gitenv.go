package shim

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// gitConfigFile is the path in the sandbox of the git configuration by polis.
const gitConfigFile = "/run/polis/gitconfig"

// openGitConfig writes that file, again at every start, so that a changed configuration of polisd
// takes effect.
func (s *Shim) openGitConfig() error {
	if s.Spec.GitConfig == "" {
		return nil
	}
	return replaceFile(filepath.Join(s.insideDir(), filepath.Base(gitConfigFile)), s.Spec.GitConfig)
}

// gitEnv makes git read the file, in the agent's own worktree, in those that it adds by git worktree add, and nowhere
// else: other repositories, such as those that a test makes and those of submodules, are not affected. Below
// "worktrees" the agent sees only its own, and * stands for one name. A command's settings come last, so that they
// take precedence.
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
	dir := filepath.Join(s.Spec.BareRepo, "worktrees")
	return []string{
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=includeIf.gitdir:%s/*.path", n, globQuote(dir)),
		fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, gitConfigFile),
	}
}

// globQuote quotes a path as a pattern that matches only it.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
