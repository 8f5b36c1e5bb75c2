package cgroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	mountsV2 = `30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
31 23 0:27 / /sys/fs/pstore rw,nosuid shared:10 - pstore pstore rw
`
	mountsHybrid = `31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,size=4096k,nr_inodes=1024,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:30 / /sys/fs/cgroup/systemd rw,relatime shared:10 - cgroup cgroup rw,xattr,name=systemd
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:11 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:12 - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/pids rw,relatime shared:13 - cgroup cgroup rw,pids
90 60 0:32 /docker/abc /var/lib/x/memory rw,relatime shared:12 - cgroup cgroup rw,memory
`
	mountsContainer = `35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory
36 31 0:33 /docker/abc /sys/fs/cgroup/systemd ro,relatime - cgroup cgroup rw,xattr,name=systemd
`
)

func TestModesAreDetected(t *testing.T) {
	for name, tc := range map[string]struct {
		mounts string
		mode   Mode
		roots  []string
	}{
		"pure v2": {mountsV2, V2, []string{"/sys/fs/cgroup"}},
		"hybrid": {mountsHybrid, Hybrid, []string{
			"/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
		}},
		"v1":         {strings.Join(strings.SplitAfter(mountsHybrid, "\n")[2:], ""), V1, []string{"/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"}},
		"with space": {`1 2 0:1 / /sys/fs/my\040cgroup rw - cgroup2 none rw` + "\n", V2, []string{"/sys/fs/my cgroup"}},
	} {
		h, err := parseHost(strings.NewReader(tc.mounts))
		require.NoError(t, err, name)
		require.Equal(t, tc.mode, h.Mode, name)
		var roots []string
		for _, hier := range h.hierarchies {
			roots = append(roots, hier.root)
		}
		require.Equal(t, tc.roots, roots, name)
	}
	for _, text := range []string{"", "22 27 0:21 / /proc rw,relatime - proc proc rw\n"} {
		_, err := parseHost(strings.NewReader(text))
		require.ErrorIs(t, err, ErrNone)
	}
	_, err := parseHost(strings.NewReader("garbage\n"))
	require.ErrorContains(t, err, "garbage")
	require.NotErrorIs(t, err, ErrNone, "a table that cannot be read does not say that there are none")
}

func TestControllersAreFoundWhereTheyAreMounted(t *testing.T) {
	h, err := parseHost(strings.NewReader(mountsHybrid))
	require.NoError(t, err)
	for c, want := range map[string]string{"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct", "memory": "memory", "pids": "pids"} {
		hier, ok := h.controller(c)
		require.True(t, ok)
		require.Equal(t, "/sys/fs/cgroup/"+want, hier.root)
	}
	_, ok := h.controller("freezer")
	require.False(t, ok)
	h, err = parseHost(strings.NewReader(mountsV2))
	require.NoError(t, err)
	hier, ok := h.controller("memory")
	require.True(t, ok)
	require.Equal(t, "/sys/fs/cgroup", hier.root)
}

func TestProcessorTimeIsCountedInAFileOfTheMode(t *testing.T) {
	for name, tc := range map[string]struct{ mounts, want string }{
		"pure v2": {mountsV2, "/sys/fs/cgroup/a/cpu.stat"},
		"hybrid":  {mountsHybrid, "/sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage"},
		"none":    {mountsContainer, ""},
	} {
		h, err := parseHost(strings.NewReader(tc.mounts))
		require.NoError(t, err, name)
		g, err := h.Group("/a")
		require.NoError(t, err, name)
		file, ok := g.meterFile()
		require.Equal(t, tc.want != "", ok, name)
		if ok {
			require.Equal(t, tc.want, file, name)
		}
	}
}

func TestOwnGroupIsRead(t *testing.T) {
	const unit = "/polis.slice/polis-agent@x.service"
	for name, tc := range map[string]struct{ mounts, text, want string }{
		"pure v2":   {mountsV2, "0::" + unit + "\n", unit},
		"v2 root":   {mountsV2, "0::/\n", "/"},
		"hybrid":    {mountsHybrid, "5:memory:/user.slice\n1:name=systemd:" + unit + "\n0::" + unit + "\n", unit},
		"colon":     {mountsV2, "0::/a:b\n", "/a:b"},
		"container": {mountsContainer, "5:memory:/docker/abc/x\n1:name=systemd:/docker/abc/y\n", "/y"},
		"beside":    {mountsContainer, "5:memory:/docker/abc/x\n1:name=systemd:/docker/abcd/y\n", "/x"},
	} {
		h, err := parseHost(strings.NewReader(tc.mounts))
		require.NoError(t, err, name)
		got, err := h.parseOwn(tc.text)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
	h, err := parseHost(strings.NewReader(mountsV2))
	require.NoError(t, err)
	_, err = h.parseOwn("rubbish\n")
	require.ErrorIs(t, err, ErrNone)
}

func TestVictimsAreReadFromTheKernelLog(t *testing.T) {
	const head = "6,1234,567,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
	for name, tc := range map[string]struct {
		record string
		pid    int
		comm   string
		ok     bool
	}{
		"ours":           {head + "oom_memcg=/polis/a,task_memcg=/polis/a/b,task=node,pid=71,uid=1000\n", 71, "node", true},
		"in a container": {head + "oom_memcg=/docker/1/polis/a,task_memcg=/docker/1/polis/a,task=node,pid=71,uid=1000\n", 71, "node", true},
		"another's":      {head + "oom_memcg=/polis/b,task_memcg=/polis/b,task=node,pid=71,uid=1000\n", 0, "", false},
		"machine-wide":   {"6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/polis/a,task=node,pid=71,uid=0\n", 71, "node", true},
		"hostile name":   {head + "oom_memcg=/polis/b,task_memcg=/polis/b,task=,oom_memcg=/polis/a,pid=1,pid=71,uid=1000\n", 0, "", false},
		"odd name":       {head + "oom_memcg=/polis/a,task_memcg=/polis/a,task=a,pid=9,b,pid=71,uid=1000\n", 71, "a,pid=9,b", true},
		"other message":  {"6,1,2,-;eth0: link up\n", 0, "", false},
		"with more":      {head + "oom_memcg=/polis/a,task_memcg=/polis/a,task=x,pid=5,uid=1\n SUBSYSTEM=mem\n", 5, "x", true},
		"no number":      {head + "oom_memcg=/polis/a,task_memcg=/polis/a,task=x,pid=,uid=1\n", 0, "", false},
	} {
		v, ok := parseVictim(tc.record, "/polis/a")
		require.Equal(t, tc.ok, ok, name)
		require.Equal(t, tc.pid, v.pid, name)
		require.Equal(t, tc.comm, v.comm, name)
	}
}

func TestVictimNamesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		comm := rapid.StringMatching(`[a-z,=_/.-]{0,15}`).Draw(t, "comm")
		pid := rapid.IntRange(1, 1<<22).Draw(t, "pid")
		record := fmt.Sprintf("6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/p/a,task_memcg=/p/a,task=%s,pid=%d,uid=0\n", comm, pid)
		v, ok := parseVictim(record, "/p/a")
		require.True(t, ok)
		require.Equal(t, victim{pid: pid, comm: comm}, v)
		_, ok = parseVictim(record, "/p/b")
		require.False(t, ok)
	})
}

func TestVictimsLimitAndMemoryAreRead(t *testing.T) {
	const tail = "task_memcg=/p/a,task=x,pid=5,uid=1\n"
	for record, above := range map[string]bool{
		"4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/p/a," + tail: false,
		"4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/p," + tail:   true,
		"4,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,global_oom," + tail:      true,
	} {
		v, ok := parseVictim(record, "/p/a")
		require.True(t, ok)
		require.Equal(t, above, v.above, record)
	}
	killed := "3,1,2,-;Memory cgroup out of memory: Killed process 71 (%s) total-vm:9kB, anon-rss:7kB, file-rss:2kB, shmem-rss:1kB, UID:1000 pgtables:188kB oom_score_adj:300\n"
	for _, comm := range []string{"node", "a) total-vm:9kB, anon-rss:9000kB (", ") x"} {
		n, ok := parseKilled(fmt.Sprintf(killed, comm), 71)
		require.True(t, ok, comm)
		require.EqualValues(t, 10<<10, n, comm)
	}
	for _, record := range []string{fmt.Sprintf(killed, "x"), "", "Killed process 70 (x) total-vm:", "Killed process 70 (x) total-vm:1kB, anon-rss:xkB"} {
		_, ok := parseKilled(record, 70)
		require.False(t, ok, record)
	}
}

func TestSharesKeepOrderAndDefault(t *testing.T) {
	require.EqualValues(t, 1024, shares(100))
	require.EqualValues(t, 10, shares(1))
	require.EqualValues(t, 102400, shares(10000))
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(1, 10000).Draw(t, "a")
		b := rapid.Int64Range(a, 10000).Draw(t, "b")
		require.LessOrEqual(t, shares(a), shares(b))
		require.GreaterOrEqual(t, shares(a), int64(2))
		require.LessOrEqual(t, shares(b), int64(262144))
	})
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{mountsV2, mountsHybrid, mountsContainer, " - cgroup2", "1 2 3 4 5 6 - cgroup a b\n"} {
		f.Add(s, "0::/x\n")
	}
	f.Fuzz(func(t *testing.T, mounts, own string) {
		h, err := parseHost(strings.NewReader(mounts))
		if err != nil {
			return
		}
		if p, err := h.parseOwn(own); err == nil {
			require.True(t, strings.HasPrefix(p, "/"))
			require.NotContains(t, strings.Split(p, "/"), "..")
		}
	})
}

func FuzzVictim(f *testing.F) {
	f.Add("6,1,2,-;oom-kill:oom_memcg=/p/a,task_memcg=/p/a,task=x,pid=1,uid=0\n", "/p/a")
	f.Fuzz(func(t *testing.T, record, group string) {
		if v, ok := parseVictim(record, group); !ok {
			require.Zero(t, v)
		}
		if n, ok := parseKilled(record, 71); !ok {
			require.Zero(t, n)
		}
	})
}

func TestDisksAndPressureAreRead(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1\n": {11, 22},
		"8:0 Read 10\n8:0 Write 20\n8:0 Sync 5\n8:0 Total 30\nTotal 30\n":                        {10, 20},
		"": {}, "8:0\n": {}, "\n": {}, "8:0 rbytes=x wbytes=-1\n": {},
	} {
		r, w := parseIO(text)
		require.Equal(t, want, [2]uint64{r, w}, text)
	}
	v, ok := parsePSI("some avg10=1.53 avg60=1.20 avg300=0.00 total=77\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n")
	require.True(t, ok)
	require.InDelta(t, 1.53, v.avg10, 0.001)
	require.Equal(t, 77*time.Microsecond, v.total)
	for _, text := range []string{"", "full avg10=1.00 total=1", "some avg10=x total=1", "some avg10=NaN total=1", "some avg10=101.0 total=1",
		"some avg10=1.0", "some total=1", "some avg10=1.0 total=-1", "some avg10=1.0 total=9223372036854775807"} {
		_, ok := parsePSI(text)
		require.False(t, ok, text)
	}
}

func FuzzUsage(f *testing.F) {
	f.Add("8:0 rbytes=10 wbytes=20\n8:0 Read 10\nsome avg10=1.53 avg60=1.20 total=5\n")
	f.Fuzz(func(t *testing.T, text string) {
		parseIO(text)
		if v, ok := parsePSI(text); ok {
			require.True(t, v.avg10 >= 0 && v.avg10 <= 100 && v.total >= 0)
		}
	})
}

func TestProcessorTimeIsParsed(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1500000\n": 1500 * time.Microsecond,
		"usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n": 1500 * time.Microsecond,
		"user_usec 7\nusage_usec 0\n":                        0,
	} {
		got, err := parseCPUTime(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "x", "-1", "user_usec 5\n", "usage_usec 9223372036854775807\n", "usage_usec\n"} {
		_, err := parseCPUTime(text)
		require.Error(t, err, text)
	}
}
