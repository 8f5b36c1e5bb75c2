// Package world makes, below one directory, what a developer's machine has where polis is installed: an ordinary user with
// a home and a git configuration of several files, and a project with what projects have. Tests start polisd on it, and
// type as that user. A fault that needs two of these things at once is found here, and not in a repository of three files.
//
// It has:
//   - ~/.gitconfig with [include], [includeIf "gitdir:"] that names the identity at work, ~/.config/git/{config,ignore,attributes}
//   - commits that are signed with an SSH key
//   - filter.lfs of git-lfs, or of a stand-in that does what clean and smudge do (LFS says which)
//   - umask 077: files have mode 0600
//   - ~/src, a link to another place, with the project in it
//   - a bare remote with branches and tags, and a submodule with another
//   - hooks in .githooks (core.hooksPath), and others in .git/hooks that git does not run
//   - .venv/bin/python, a link to an interpreter in the home, as uv makes it, and .env, which only .git/info/exclude ignores
//   - rules of Docker and of ufw, for the network namespace that polisd runs in
//
// The machine itself is not changed: the user and the groups exist in mount namespaces of the commands (Inside), and all files
// are below the directory. Only tests import it. It takes no locks and starts no process that stays.
package world
