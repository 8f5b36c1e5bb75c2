#!/usr/bin/env python3
"""grammar.py SEED MARK: fills the worktree it is started in with hostile content.

It runs as an agent, in the agent's sandbox. What it does is drawn from a grammar
of names, files, modes, trees, indexes, git files, refs and configurations; the
same SEED does the same. Every program that git could be made to start touches
MARK, a path that is the host's. A step that is refused is no failure: what is
refused harms nobody. Each step is printed before it is taken.
"""
import hashlib, os, random, subprocess, sys

seed, mark = int(sys.argv[1]), sys.argv[2]
r = random.Random(seed)
touch = "touch '%s'" % mark
env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")


def git(*args, data=None):
    p = subprocess.run(["git", *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, timeout=60)
    return p.stdout.strip().decode("latin-1")


gitdir, common = git("rev-parse", "--absolute-git-dir"), os.path.abspath(git("rev-parse", "--git-common-dir"))
head = git("rev-parse", "HEAD")
branch = git("symbolic-ref", "HEAD")

names = [b"a", b"src", b"x.txt", b".git", b".GIT", b"git~1", b".git\xe2\x80\x8c", b".git ", b".gitmodules", b".gitattributes", b".gitignore", b".mailmap",
         b".worktreeinclude", b".envrc", b"a" * 255, b"a" * 300, b"\xff\xfe", b"a\nb", b"-x", b"--", b"..", b".", b"...", b"con", b"aux.txt", b"$(" + touch.encode()[:20] + b")",
         b"`id`", b"a b", b"\x1b[31m", b"node_modules", b"refs", b"HEAD", b"*", b"\xe2\x80\xae", b"a\\b", b"a:b", b"package.json", b"Makefile"]
modes = [b"100644", b"100755", b"120000", b"160000", b"40000", b"040000", b"100664", b"0", b"777777", b"100600"]


def name():
    return r.choice(names)


def blob():
    data = r.choice([b"", b"text\n", b"\0\xff" * r.randrange(2000), b"../" * 40 + b"etc/passwd", b"/etc/passwd", mark.encode(), config(), attributes(), b"*\n", b"x" * r.choice([1, 4095, 4096, 70000, 2 << 20])])
    return git("hash-object", "-w", "--stdin", data=data) or "0" * 40


def config():
    keys = ["core.fsmonitor", "core.editor", "core.pager", "core.sshCommand", "core.askPass", "core.gitProxy", "core.alternateRefsCommand", "diff.external", "diff.x.command", "diff.x.textconv",
            "filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.x.driver", "gpg.program", "credential.helper", "sequence.editor", "uploadpack.packObjectsHook",
            "remote.origin.uploadpack", "remote.origin.receivepack", "interactive.diffFilter", "alias.status", "alias.diff", "mergetool.x.cmd", "trailer.x.command", "submodule.s.update"]
    text = "[include]\n\tpath = /etc/shadow\n" if r.random() < .2 else ""
    for k in r.sample(keys, r.randrange(1, len(keys))):
        section, _, last = k.rpartition(".")
        section = section.replace(".", ' "', 1) + '"' if "." in section else section
        text += "[%s]\n\t%s = %s\n" % (section, last, ("!" if k.startswith(("alias", "credential", "submodule")) else "") + touch)
    if r.random() < .5:
        text += "[filter \"x\"]\n\trequired = true\n[core]\n\tworktree = %s\n\tbare = %s\n\thooksPath = hooks\n\tattributesFile = a\n" % (r.choice(["/", "/tmp", "..", ""]), r.choice(["true", "false", "x"]))
    return text.encode() + r.choice([b"", b"", b"[broken", b"\0", b"x" * 100000])


def attributes():
    return r.choice([b"* filter=x diff=x merge=x text eol=crlf ident\n", b"* filter=x\n", b"* working-tree-encoding=UTF-16 export-subst\n", b"[attr]y filter=x\n* y\n", b"* -text\n" * 5000])


def garbage():
    return r.choice([b"", b"\n", r.randbytes(r.randrange(1, 5000)), b"ref: refs/heads/main\n", b"ref: ../../../etc/passwd\n", b"ref: refs/heads/agent/other\n", b"de" * 20 + b"\n", b"0" * 40 + b"\n",
                     b"gitdir: /etc\n", b"/etc\n", b"../../..\n", b"x" * 300000, head.encode() + b"\n"])


def put(path, data=None):
    """makes path something: a file, or what a file should not be."""
    os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
    kind = r.choice(["file"] * 6 + ["dir", "fifo", "link", "loop", "sparse", "many", "dark", "hard"]) if data is None else "file"
    if os.path.lexists(path) and not os.path.isdir(path):
        os.unlink(path)
    if kind == "file":
        with open(path, "wb") as f:
            f.write(garbage() if data is None else data)
    elif kind == "dir":
        os.makedirs(path, exist_ok=True)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind in ("link", "loop"):
        os.symlink({"link": r.choice(["/etc/passwd", "..", "/", mark, "../../../../../etc", "/proc/self/root"]), "loop": os.path.basename(path)}[kind], path)
    elif kind == "sparse":
        with open(path, "wb") as f:
            f.truncate(r.choice([1 << 20, 1 << 30, 1 << 40]))
    elif kind == "many":
        os.makedirs(path, exist_ok=True)
        for i in range(r.choice([10, 300])):
            open(os.path.join(path, b"%d" % i), "wb").close()
    elif kind == "dark":
        os.makedirs(path, exist_ok=True)
        open(os.path.join(path, b"f"), "wb").close()
        os.chmod(path, 0)
    elif kind == "hard":
        open(path, "wb").close()
        for i in range(20):
            os.link(path, path[:200] + b".%d" % i)


def worktree_file():
    parts = [name() for _ in range(r.choice([1, 1, 2, 3]))]
    return put(os.path.join(b".", *[p for p in parts if p not in (b"..",)]))


def deep():
    d = os.getcwd()
    for i in range(r.choice([40, 300, 1200])):
        os.mkdir("d" * 10)
        os.chdir("d" * 10)
    open("f", "w").close()
    os.chdir(d)


def attributes_file():
    put(r.choice([b".gitattributes", b"src/.gitattributes", os.path.join(gitdir, "info/attributes").encode(), os.path.join(common, "info/attributes").encode()]), attributes())


def nested():
    d = r.choice(["src/nested", "nested", "docs", "a"])
    os.makedirs(d, exist_ok=True)
    git("init", "-q", d)
    open(d + "/f", "w").write("f\n")
    git("-C", d, "add", "f")
    git("-C", d, "commit", "-qm", "x")
    oid = git("-C", d, "rev-parse", "HEAD")
    open(d + "/.git/config", "ab").write(config())
    open(d + "/.gitattributes", "wb").write(attributes())
    os.makedirs(d + "/.git/hooks", exist_ok=True)
    for h in ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction"):
        open(d + "/.git/hooks/" + h, "w").write("#!/bin/sh\n" + touch + "\n")
        os.chmod(d + "/.git/hooks/" + h, 0o755)
    open(d + "/f", "a").write("changed\n")
    open(".gitmodules", "w").write('[submodule "s"]\n\tpath = %s\n\turl = ext::sh -c "%s"\n\tignore = none\n\tupdate = !%s\n' % (d, touch, touch))
    git("update-index", "--add", "--cacheinfo", "160000,%s,%s" % (oid, d))
    git("add", ".gitmodules")


def index_entry():
    git("update-index", "-z", "--add", "--index-info", data=b"%s %s\t%s\0" % (r.choice(modes[:4]), blob().encode(), b"/".join(name() for _ in range(r.choice([1, 2, 3])))))


def raw_index():
    """an entry that git itself would refuse: the bytes of a name are changed."""
    git("update-index", "--add", "--cacheinfo", "100644,%s,zz/zzzz" % blob())
    p = gitdir + "/index"
    b = bytearray(open(p, "rb").read()[:-20])
    at = b.find(b"zz/zzzz")
    if at >= 0:
        b[at:at + 7] = r.choice([b"../zzzz", b".git/xx", b"/etc/pw", b"zz/../z", b"zz//zzz", b"zz/.git"])
        if r.random() < .2:
            b[8:12] = r.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
    open(p, "wb").write(bytes(b) + hashlib.sha1(bytes(b)).digest())


def tree(depth=0):
    entries = b""
    chosen = [name() for _ in range(r.choice([1, 2, 5]))]
    if r.random() < .7:
        chosen = sorted(set(chosen))
    for n in chosen:
        m = r.choice(modes)
        oid = r.choice([blob(), blob(), head, "0" * 40, "de" * 20])
        if depth < 3 and r.random() < .4:
            m, oid = r.choice([b"40000", b"40000", b"100644"]), tree(depth + 1)
        if m in (b"40000", b"040000") and r.random() < .7:
            oid = git("rev-parse", "HEAD^{tree}")
        entries += m + b" " + n + b"\0" + bytes.fromhex(oid or "00" * 20)
    if r.random() < .1:
        entries += b"garbage"
    return git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=entries)


def move_branch():
    t = tree()
    if not t:
        return
    c = git("commit-tree", t, "-p", head, "-m", "hostile")
    if r.random() < .3:
        c = git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=b"tree %s\nparent %s\nauthor %s\ncommitter a <a@b> 99999999999999999999 +9999\n\n\x1b[2Jx\0y" % (
            t.encode(), r.choice([head, "de" * 20, t]).encode(), r.choice([b"a <a@b> 1 +0000", b"", b"<<<>>>", b"a\0b"])))
    git("update-ref", branch, c)
    p = os.path.join(common, branch)
    if r.random() < .3:
        open(p, "w").write(c + "\n")


def refs():
    for _ in range(r.randrange(1, 6)):
        ref = r.choice(["refs/heads/", "refs/tags/", "refs/polis/", "refs/notes/", "refs/replace/", "refs/remotes/origin/", "refs/"]) + r.choice(["x", "main", "x/y", "agent/other", head, "a" * 200, "HEAD", "x.lock"])
        if r.random() < .5:
            git("update-ref", ref, r.choice([head, git("rev-parse", "HEAD^{tree}"), blob()]))
        else:
            git("symbolic-ref", ref, r.choice(["refs/heads/main", ref, "refs/heads/nowhere"]))
    if r.random() < .3:
        put(os.path.join(common, "packed-refs").encode())


def git_file():
    base = r.choice([gitdir, gitdir, common])
    f = r.choice(["HEAD", "index", "ORIG_HEAD", "config", "config.worktree", "commondir", "gitdir", "logs/HEAD", "MERGE_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "rebase-merge/git-rebase-todo",
                  "sequencer/todo", "info/exclude", "info/attributes", "info/sparse-checkout", "info/grafts", "shallow", "locked", "index.lock", "HEAD.lock", "objects/info/alternates", "refs/stash", "refs/bisect/bad", "hooks/post-checkout", "modules/s/config"])
    put(os.path.join(base, f).encode())


def git_config():
    f = r.choice([gitdir + "/config.worktree", common + "/config", os.path.expanduser("~/.gitconfig")])
    put(f.encode(), config())
    git("config", "extensions.worktreeConfig", "true")


def honest():
    open("work%d.txt" % r.randrange(9), "a").write("honest\n")
    if r.random() < .6:
        git("add", "-A")
    if r.random() < .6:
        git("commit", "-qm", "work")


steps = [worktree_file, worktree_file, worktree_file, deep, attributes_file, nested, index_entry, index_entry, raw_index, move_branch, move_branch, refs, git_file, git_file, git_config, honest, honest]
only = sys.argv[3:] # names of steps, to make a failure smaller
for s in [r.choice(steps) for _ in range(r.randrange(1, 9))]:
    if only and s.__name__ not in only:
        continue
    print(s.__name__, flush=True)
    try:
        s()
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        print("  refused:", str(e)[:200].encode("ascii", "replace").decode(), flush=True)
