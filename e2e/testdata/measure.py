# Measures the working directory (a view) against $HOME (native), interleaved,
# and prints medians as JSON. For rates more is better, for times less.
import json, os, random, shutil, statistics, subprocess, time

view, native = os.getcwd(), os.path.join(os.environ["HOME"], "native")
shutil.copytree(view, native, symlinks=True, ignore=shutil.ignore_patterns(".git"))
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for args in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"]):
    subprocess.run(["git", *args], cwd=native, check=True, **quiet)
rows = []


def compare(name, f, unit, rate=False, rounds=7, scale=1.0):
    got = {native: [], view: []}
    for i in range(rounds):
        for d in (native, view) if i % 2 else (view, native):
            os.chdir(d)
            got[d].append(f() * scale)
    os.chdir(view)
    rows.append(dict(name=name, native=statistics.median(got[native]), view=statistics.median(got[view]), unit=unit, rate=rate))


def timed(f):
    def g():
        t = time.perf_counter()
        f()
        return time.perf_counter() - t
    return g


files = [os.path.relpath(os.path.join(r, f), view) for r, ds, fs in os.walk(view) for f in fs if ".git" not in r][:200]


def openclose():
    for f in files:
        os.close(os.open(f, os.O_RDONLY))


def stat():
    for f in files:
        os.stat(f)


def create():
    os.mkdir("out") if not os.path.isdir("out") else None
    for i in range(200):
        os.close(os.open("out/f%d" % i, os.O_WRONLY | os.O_CREAT, 0o644))
    for i in range(200):
        os.unlink("out/f%d" % i)


MB = 1 << 20
block = os.urandom(MB)
size = 256


def write():
    os.makedirs("out", exist_ok=True)
    fd = os.open("out/big", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    t = time.perf_counter()
    for _ in range(size):
        os.write(fd, block)
    t = time.perf_counter() - t
    os.close(fd)
    return size / t


def read():
    fd = os.open("out/big", os.O_RDONLY)
    t = time.perf_counter()
    while os.read(fd, MB):
        pass
    t = time.perf_counter() - t
    os.close(fd)
    return size / t


def rand(op):
    def f():
        fd = os.open("out/big", os.O_RDWR)
        r = random.Random(1)
        page = block[:4096]
        t = time.perf_counter()
        for _ in range(5000):
            at = r.randrange(size * 256) * 4096
            os.pwrite(fd, page, at) if op == "w" else os.pread(fd, 4096, at)
        t = time.perf_counter() - t
        os.close(fd)
        return 5000 / t / 1000
    return f


def command(*args, env=None):
    return timed(lambda: subprocess.run(args, check=True, env=env, **quiet))


compare("open and close", timed(openclose), "us", scale=1e6 / len(files))
compare("stat", timed(stat), "us", scale=1e6 / len(files))
compare("create and unlink", timed(create), "us", scale=1e6 / 200)
compare("git status", command("git", "status", "--porcelain"), "ms", scale=1e3)
compare("grep -r", command("grep", "-r", "--include=*.go", "func", "."), "ms", scale=1e3)
compare("sequential write", write, "MB/s", True)
compare("sequential read", read, "MB/s", True)
compare("random write, 4 KiB", rand("w"), "k/s", True)
compare("random read, 4 KiB", rand("r"), "k/s", True)
for d in (native, view):
    os.remove(os.path.join(d, "out/big"))


def build():
    cache = os.path.join(os.environ["HOME"], "cache")
    env = dict(os.environ, GOCACHE=cache, GOFLAGS="-mod=mod", GOTOOLCHAIN="local", GOPROXY="off")
    go = os.environ.get("GO", "go")
    subprocess.run([go, "build", "std"], env=env, **quiet) if not os.path.isdir(cache) else None
    # A file that changed makes the module's packages build again.
    for p in ("container/ring/ring.go", "html/escape.go", "regexp/syntax/parse.go"):
        with open(p, "a") as f:
            f.write("// %d\n" % random.getrandbits(60))
    t = time.perf_counter()
    subprocess.run([go, "build", "./..."], check=True, env=env, **quiet)
    return time.perf_counter() - t


build()
compare("go build", build, "s", rounds=5)
print(json.dumps(rows))
