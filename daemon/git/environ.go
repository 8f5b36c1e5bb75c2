package git

import (
	"fmt"
	"slices"
	"strings"
)

// settings returns the configuration of every command. It is passed in the environment, which for
// git is a protected source with precedence over every file.
func settings() []string {
	return []string{
		"core.hooksPath=/dev/null",
		"core.fsmonitor=false",
		"core.untrackedCache=false",
		"core.pager=cat",
		"core.editor=false",
		"core.autocrlf=false",
		"core.safecrlf=false",
		"core.sshCommand=ssh -oBatchMode=yes -oConnectTimeout=15",
		"credential.helper=",
		"protocol.ext.allow=never",
		"gc.auto=0",
		"maintenance.auto=false",
		"submodule.recurse=false",
		"fetch.recurseSubmodules=false",
		"diff.ignoreSubmodules=all",
		"core.attributesFile=/dev/null",
		"core.bigFileThreshold=32m", // larger files are binary, and are streamed
		"merge.autoStash=false",
		"merge.verifySignatures=false",
		"merge.renormalize=false",
		"branch.autoSetupMerge=false",
		"commit.gpgSign=false",
		"tag.gpgSign=false",
		"log.showSignature=false",
		"status.showUntrackedFiles=all",
		"core.quotePath=true",
		// A clone can be on a file system where other names are equal to .git.
		"core.protectHFS=true",
		"core.protectNTFS=true",
		// An agent's git can hold a lock on the same files for a moment.
		"core.filesRefLockTimeout=5000",
		"core.packedRefsTimeout=15000",
		"advice.detachedHead=false",
	}
}

func (r *Runner) environ(c *Cmd) []string {
	if c.Own != nil {
		return c.Own.environ(c)
	}
	global := c.Global
	if global == "" {
		global = "/dev/null"
	}
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C", "TZ=UTC",
		"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + global,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		"GIT_PAGER=cat", "GIT_EDITOR=/bin/false",
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_DEFAULT_REF_FORMAT=files", // the format that views can guard
		// Ignore what an agent could put into shared refs or info/.
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_GRAFT_FILE=/dev/null",
		"GIT_AUTHOR_NAME=polis", "GIT_AUTHOR_EMAIL=polis@localhost",
		"GIT_COMMITTER_NAME=polis", "GIT_COMMITTER_EMAIL=polis@localhost",
	}
	if c.Home != "" {
		env = slices.DeleteFunc(env, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return strings.HasPrefix(name, "GIT_AUTHOR_") || strings.HasPrefix(name, "GIT_COMMITTER_") || name == "HOME" || name == "XDG_CONFIG_HOME" || name == "GIT_CONFIG_NOSYSTEM" || name == "GIT_CONFIG_GLOBAL" || name == "GIT_ATTR_NOSYSTEM"
		})
		env = append(env, "HOME="+c.Home)
	}
	return c.finish(env, append(settings(), c.Config...))
}

// finish appends the variables and the configuration of the command to an environment.
func (c *Cmd) finish(env, config []string) []string {
	for _, v := range []struct{ key, value string }{
		{"GIT_DIR", c.GitDir}, {"GIT_COMMON_DIR", c.CommonDir},
		{"GIT_WORK_TREE", c.WorkTree}, {"GIT_INDEX_FILE", c.Index},
		{"GIT_OBJECT_DIRECTORY", c.Objects}, {"GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates(c.Alternates)},
	} {
		if v.value != "" {
			env = append(env, v.key+"="+v.value)
		}
	}
	if c.Helpers {
		config = slices.DeleteFunc(config, func(p string) bool { return p == "credential.helper=" })
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, pair := range config {
		key, value, _ := strings.Cut(pair, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return append(env, c.Env...)
}
