# Makes the home and the project, as the user who owns them, in the home, with umask 077.
exec </dev/null
top=$(dirname "$HOME")
export GIT_AUTHOR_DATE='2026-01-05T09:00:00Z' GIT_COMMITTER_DATE='2026-01-05T09:00:00Z'

# The account: a key that signs, and a configuration of several files.
mkdir -p .ssh .config/git .local/share/uv/python/cpython-3.12/bin
ssh-keygen -q -t ed25519 -N '' -C ann@corp.example -f .ssh/id_ed25519
echo "ann@corp.example,ann@home.example $(cat .ssh/id_ed25519.pub)" >.ssh/allowed_signers
cat >.gitconfig <<'CONFIG'
[user]
	name = Ann
	email = ann@home.example
[include]
	path = ~/.config/git/common
[includeIf "gitdir:~/src/"]
	path = ~/.config/git/work
[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = git-lfs smudge -- %f
	required = true
[alias]
	st = status --short
[pull]
	rebase = true
CONFIG
# What "git lfs install" writes; the stand-in has no such process.
[[ $(git lfs version) == stand-in* ]] || git config --global filter.lfs.process 'git-lfs filter-process'
cat >.config/git/common <<'CONFIG'
[init]
	defaultBranch = main
[commit]
	gpgSign = true
[gpg]
	format = ssh
[gpg "ssh"]
	allowedSignersFile = ~/.ssh/allowed_signers
[user]
	signingKey = ~/.ssh/id_ed25519.pub
[credential]
	helper = cache
CONFIG
printf '[user]\n\tname = Ann Work\n\temail = ann@corp.example\n' >.config/git/work
printf '[core]\n\tautocrlf = input\n[rerere]\n\tenabled = true\n' >.config/git/config
printf '# editors\n.idea/\n*.swp\n' >.config/git/ignore
printf '*.md diff=markdown\n*.png binary\n' >.config/git/attributes
printf '#!/bin/sh\necho "interpreter $(basename "$0")"\n' >.local/share/uv/python/cpython-3.12/bin/python3.12
chmod 700 .local/share/uv/python/cpython-3.12/bin/python3.12

# ~/src is on another disk.
mkdir -p "$top/disk/src"
ln -s "$top/disk/src" src

# The submodule's repository and its remote.
git init -q theme
cd theme
echo 'body {}' >theme.css
git add -A
git commit -qm 'Theme'
git clone -q --bare . "$top/remotes/theme.git"
cd ..
rm -rf theme

# The project.
git init -q src/shop
cd src/shop
mkdir -p secret src/deep docs assets .githooks
printf '# shop\n' >README.md
printf 'one\ntwo\nthree\n' >main.txt
printf 'a\n' >src/a.txt
printf 'c\n' >src/deep/c.txt
printf 'guide\n' >docs/guide.md
printf 'secret\n' >secret/key.txt
printf '/build/\n.venv/\nnode_modules/\n' >.gitignore
printf '/.venv/\n' >.worktreeinclude
printf '*.bin filter=lfs diff=lfs merge=lfs -text\n' >.gitattributes
printf 'weights\n' >assets/model.bin
printf '#!/bin/sh\nif git diff --cached | grep -q "^+.*AKI[A]"; then echo "a secret is in the commit" >&2; exit 1; fi\n' >.githooks/pre-commit
chmod 700 .githooks/pre-commit
git config core.hooksPath .githooks
[[ $(git lfs version) == stand-in* ]] || git lfs update >/dev/null # its hooks
git add -A
git commit -qm 'Start the shop'
git -c protocol.file.allow=always submodule --quiet add "$top/remotes/theme.git" vendor/theme
git commit -qm 'Add the theme'
git tag -s -m 'version 1.0' v1.0
git clone -q --bare . "$top/remotes/shop.git"
git remote add origin "$top/remotes/shop.git"
git checkout -q -b feature/search
echo search >src/search.txt
git add -A
git commit -qm 'Search'
git push -q origin feature/search
git checkout -q -b release/1.0 main
echo notes >docs/notes.md
git add -A
git commit -qm 'Notes of the release'
git tag v1.1
git push -q --tags -u origin release/1.0
git checkout -q main
git branch -q -D feature/search
git fetch -q origin
git branch -q -u origin/main
git remote set-head origin main

# What is only here.
printf '#!/bin/sh\necho "not in use" >&2; exit 1\n' >.git/hooks/pre-commit
chmod 700 .git/hooks/pre-commit
printf '.env\n*.local\n' >>.git/info/exclude
printf 'TOKEN=of-the-owner\n' >.env
mkdir -p .venv/bin
printf 'home = %s\n' "$HOME/.local/share/uv/python/cpython-3.12/bin" >.venv/pyvenv.cfg
ln -s "$HOME/.local/share/uv/python/cpython-3.12/bin/python3.12" .venv/bin/python
ln -s python .venv/bin/python3
test -z "$(git status --porcelain)"
