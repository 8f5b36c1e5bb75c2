package gitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// donor makes a repository with history that the shared one does not have, and
// returns a pack of all of it.
func (r *repo) donor(format string) (dir, pack string) {
	dir = filepath.Join(r.dir, "donor")
	r.must(r.dir, "git init -q -b trunk --object-format="+format+" donor && cd donor && for i in 1 2 3 4 5; do seq $i 300 > f$i; git add .; git commit -qm $i; done && "+
		"git tag -am t v9 && git repack -qad && git index-pack --rev-index .git/objects/pack/*.pack")
	packs, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/pack-*.pack"))
	require.NoError(r.t, err)
	require.Len(r.t, packs, 1)
	return dir, strings.TrimSuffix(packs[0], ".pack")
}

func TestPacksAreAdded(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			donor, _ := r.donor(format)
			tree, m, g := r.agent("a1")
			r.must(tree, "git config transfer.unpackLimit 1; git fetch -q --no-tags "+donor+" trunk:refs/heads/trunk; git log --oneline trunk | wc -l | grep -q 5")
			require.Regexp(t, `^pack-[0-9a-f]+\.idx\npack-[0-9a-f]+\.pack$`, r.must(r.bare, "ls objects/pack"))
			require.Positive(t, g.Used())
			// A blob that git streams into a pack of its own.
			r.must(tree, "git config core.bigFileThreshold 1k; git config pack.writeReverseIndex true; head -c 5000 /dev/urandom > big; git add big; git commit -qm big; git show HEAD:big | cmp - big")
			r.must(r.bare, "git fsck --full --strict && git repack -adq && git fsck --full --strict")
			// git packs what is only this agent's, and removes what the pack replaces.
			r.must(tree, "echo more >more; git add more; git stash -q; git repack -adq; git repack -adq; git gc -q; git prune; git fsck --no-dangling; git stash pop -q")
			for _, line := range []string{"git multi-pack-index write", "git commit-graph write --reachable"} {
				before := r.must(m, "ls objects/pack objects/info")
				out, err := run(t, tree, "sh", "-c", line)
				require.Error(t, err, out)
				require.Eventually(t, func() bool { return before == r.must(m, "ls objects/pack objects/info") }, 30*time.Second, 100*time.Millisecond, line)
			}
			r.must(r.bare, "git fsck --full --strict; git rev-list --all --objects >/dev/null")
		})
	}
}

func TestHostilePacksAreRefused(t *testing.T) {
	r := newRepo(t, "sha1")
	_, pack := r.donor("sha1")
	_, m, _ := r.agent("a1")
	r.agent("a2")
	read := func(ext string) []byte {
		b, err := os.ReadFile(pack + ext)
		require.NoError(t, err)
		return b
	}
	good, idx, rev := read(".pack"), read(".idx"), read(".rev")
	flip := func(b []byte, i int) []byte {
		b = append([]byte(nil), b...)
		b[i] ^= 0x40
		return b
	}
	name := filepath.Base(pack)
	other := "pack-" + strings.Repeat("ab", 20)
	add := func(tmp, to string, content []byte) error {
		tmp, to = filepath.Join(m, "objects/pack", tmp), filepath.Join(m, "objects/pack", to)
		require.NoError(t, os.WriteFile(tmp, content, 0o644))
		defer func() { require.NoError(t, os.Remove(tmp)) }()
		return os.Link(tmp, to)
	}
	for what, c := range map[string]struct {
		to      string
		content []byte
	}{
		"not a pack":                  {name + ".pack", []byte("hello, I am a pack, believe me, I really am")},
		"empty":                       {name + ".pack", nil},
		"under a wrong name":          {other + ".pack", good},
		"one bit wrong":               {name + ".pack", flip(good, len(good)/2)},
		"the trailer wrong":           {name + ".pack", flip(good, len(good)-1)},
		"an index without a pack":     {name + ".idx", idx},
		"an index under another name": {other + ".idx", idx},
		"a mark that keeps a pack":    {name + ".bitmap", idx},
		"an index of many":            {"multi-pack-index", idx},
	} {
		require.ErrorIs(t, add("tmp_pack_1", c.to, c.content), syscall.EACCES, what)
	}
	require.NoError(t, add("tmp_pack_1", name+".pack", good), "%+v", r.refused())
	for what, c := range map[string]struct {
		to      string
		content []byte
	}{
		"an index with a bit wrong":         {name + ".idx", flip(idx, len(idx)/2)},
		"the reverse index as index":        {name + ".idx", rev},
		"a reverse index with a wrong bit":  {name + ".rev", flip(rev, 20)},
		"an index with something behind it": {name + ".idx", append(append([]byte(nil), idx...), 0)},
	} {
		require.ErrorIs(t, add("tmp_idx_1", c.to, c.content), syscall.EACCES, what)
	}
	require.NoError(t, add("tmp_rev_1", name+".rev", rev))
	require.NoError(t, add("tmp_idx_1", name+".idx", idx))
	require.ErrorIs(t, add("tmp_pack_1", name+".pack", good), syscall.EEXIST)
	for what, err := range map[string]error{
		"truncate":   os.Truncate(filepath.Join(m, "objects/pack", name+".idx"), 0),
		"replace":    os.Rename(filepath.Join(m, "objects/pack", name+".idx"), filepath.Join(m, "objects/pack", name+".rev")),
		"keep":       os.WriteFile(filepath.Join(m, "objects/pack", other+".pack"), good, 0o644),
		"alternates": os.WriteFile(filepath.Join(m, "objects/info/alternates"), []byte("/tmp\n"), 0o644),
		"http":       os.WriteFile(filepath.Join(m, "objects/info/http-alternates"), []byte("/tmp\n"), 0o644),
	} {
		require.ErrorIs(t, err, syscall.EACCES, what)
	}
	// Another agent has a directory of its own.
	require.NoFileExists(t, filepath.Join(r.dir, "a2.mnt", "objects/pack", name+".pack"))
	require.NoFileExists(t, filepath.Join(r.bare, "objects/pack", name+".pack"), "no ref leads to what is in it")
	r.must(r.bare, "git fsck --full --strict")
}

// A pack of an object whose name is right and whose content is damaged: the
// pack's own hash is right.
func TestPackOfUnsoundObjectsIsRefused(t *testing.T) {
	r := newRepo(t, "sha1")
	_, m, _ := r.agent("a1")
	// A header for one blob of 5 bytes, then what no inflate understands.
	body := "PACK\x00\x00\x00\x02\x00\x00\x00\x01\x35garbage!"
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "body"), []byte(body), 0o644))
	sum := r.must(r.dir, "sha1sum body | cut -d' ' -f1")
	raw := make([]byte, 20)
	_, err := fmt.Sscanf(sum, "%x", &raw)
	require.NoError(t, err)
	tmp := filepath.Join(m, "objects/pack/tmp_pack_x")
	require.NoError(t, os.WriteFile(tmp, append([]byte(body), raw...), 0o644))
	require.ErrorIs(t, os.Link(tmp, filepath.Join(m, "objects/pack/pack-"+sum+".pack")), syscall.EACCES)
	require.Contains(t, r.refused()[0].Hint, "the pack is damaged")
}

func TestQuotaOfObjects(t *testing.T) {
	r := newRepo(t, "sha1")
	var told int64
	tree, _, g := r.agent("a1", func(c *Config) {
		c.Quota, c.Used = 1<<20, 1<<19
		c.OnUsed = func(n int64) { r.mu.Lock(); told = n; r.mu.Unlock() }
	})
	r.must(tree, "head -c 100000 /dev/urandom > a; git add a; git commit -qm a")
	require.Greater(t, g.Used(), int64(1<<19+100000))
	require.Equal(t, g.Used(), told)
	out, err := run(t, tree, "sh", "-c", "head -c 900000 /dev/urandom > b; git add b")
	require.Error(t, err)
	require.Contains(t, out, "Disk quota exceeded")
	d := r.refused()[len(r.refused())-1]
	require.Equal(t, "QUOTA", d.Code)
	require.Equal(t, syscall.EDQUOT, d.Errno)
	r.must(tree, "git status; git log -1; rm b; echo small > c; git add c; git commit -qm c")
	r.must(r.bare, "git fsck --full --strict")
}

func TestPackRefsWithOthersBeside(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			t1, m1, _ := r.agent("a1")
			t2, _, _ := r.agent("a2")
			r.must(t2, "echo q >>f && git commit -qam q && git branch a2s && git tag -am t a2t && git tag a2light")
			r.must(t1, "git branch mine && git tag -am t a1t")
			refs := r.must(r.bare, "git show-ref -d")
			r.must(t1, "git pack-refs --all")
			require.Equal(t, refs, r.must(r.bare, "git show-ref -d"))
			require.NoFileExists(t, filepath.Join(r.bare, "refs/heads/mine"))
			require.FileExists(t, filepath.Join(r.bare, "refs/heads/a2s"), "others' refs keep their files")
			// What is packed of others does not hold them back.
			r.must(t2, "git branch -f a2s HEAD~1 && git tag -d a2t && git branch -D a2s")
			require.NotContains(t, r.must(r.bare, "git for-each-ref"), "a2s")
			head := r.must(r.bare, "git rev-parse main")
			text, err := os.ReadFile(filepath.Join(r.bare, "packed-refs"))
			require.NoError(t, err)
			forge := func(s string) error {
				lock, next := filepath.Join(m1, "packed-refs.lock"), filepath.Join(m1, "packed-refs.new")
				require.NoError(t, os.WriteFile(lock, nil, 0o644))
				require.NoError(t, os.WriteFile(next, []byte(s), 0o644))
				defer func() { require.NoError(t, os.Remove(lock)) }()
				err := os.Rename(next, filepath.Join(m1, "packed-refs"))
				if err != nil {
					require.NoError(t, os.Remove(next))
				}
				return err
			}
			require.NoError(t, forge(string(text)))
			light := r.must(r.bare, "git rev-parse a2light")
			header, rest, _ := strings.Cut(string(text), "\n")
			header += "\n"
			records := strings.SplitAfter(strings.ReplaceAll(rest, "\n^", "^"), "\n") // a peeled line stays with its tag
			slices.Reverse(records)
			for what, s := range map[string]string{
				"another value":      strings.ReplaceAll(string(text), light+" refs/heads/agent/a2", head+" refs/heads/agent/a2"),
				"a ref gone":         strings.ReplaceAll(string(text), light+" refs/tags/a2light\n", ""),
				"a peel that is not": strings.ReplaceAll(string(text), " refs/tags/a2light\n", " refs/tags/a2light\n^"+head+"\n"),
				"a new ref":          string(text) + head + " refs/heads/zzz\n",
				"nothing":            "",
				// git reads none of these as it reads the present one, or stops at it.
				"a name with CR":       strings.ReplaceAll(string(text), " refs/tags/a2light\n", " refs/tags/a2light\r\n"),
				"a line cut short":     strings.TrimSuffix(string(text), "\n"),
				"a second comment":     string(text) + "# x\n",
				"another header":       strings.ReplaceAll(string(text), "# pack-refs with:", "# packed"),
				"unsorted":             header + strings.ReplaceAll(strings.Join(records, ""), "^", "\n^"),
				"a name with dots":     strings.ReplaceAll(string(text), header, header+light+" refs/heads/../tags/a2light\n"),
				"a hash that is other": strings.ReplaceAll(string(text), head+" refs/heads/mine\n", head+" refs/heads/mine\n^"+strings.Repeat("a", 104-len(light))+"\n"),
			} {
				require.NotEqual(t, string(text), s, what)
				assert.ErrorIs(t, forge(s), syscall.EACCES, what)
			}
			// Without the lock not even what is right is put in place.
			next := filepath.Join(m1, "packed-refs.new")
			require.NoError(t, os.WriteFile(next, text, 0o644))
			require.ErrorIs(t, os.Rename(next, filepath.Join(m1, "packed-refs")), syscall.EACCES)
			r.must(r.bare, "git fsck --full --strict")
		})
	}
}
