package systemd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// memoryAsks meets the kernel's own soft limit: a threshold of cgroup v1, memory.high of v2. The
// approval raises the hard limit of the agent's group while the program runs, and the soft limit is
// gone when it has passed.
func memoryAsks(t *testing.T) {
	const file = "/etc/polis/polisd.toml"
	must(t, "printf '# memory\\n[limits.memory_ask]\\nat = 60\\nstep_mb = 64\\nmax_mb = 192\\n' >> "+file+" && systemctl reload polisd")
	must(t, "polisctl agents add needy --workspace ws --base custom --memory 128")
	hog := make(chan result, 1)
	go func() {
		out, err := run(t, `polisctl agents exec needy -- /usr/bin/python3 -c '
import os, time
a = bytearray(b"x") * (90 << 20)
while not os.path.exists("more"): time.sleep(0.05)
b = bytearray(b"x") * (60 << 20)
print("alive", len(a) + len(b))
'`)
		hog <- result{out, err}
	}()
	var question struct{ ID, Kind, What string }
	eventually(t, "the question", func() bool {
		var list struct {
			Approvals []struct{ ID, Agent, Kind, What string }
		}
		require.NoError(t, json.Unmarshal([]byte(must(t, "polisctl --json approvals list")), &list))
		for _, q := range list.Approvals {
			if q.Agent == "needy" {
				question.ID, question.Kind, question.What = q.ID, q.Kind, q.What
				return true
			}
		}
		return false
	})
	require.Equal(t, []string{"memory", "raise to 192 MB"}, []string{question.Kind, question.What})
	must(t, "polisctl approvals approve "+question.ID)
	eventually(t, "the kernel's limit", func() bool {
		for _, f := range memoryFiles("memory.max", "memory.limit_in_bytes") {
			if strings.TrimSpace(readFile(t, f)) == "201326592" {
				return true
			}
		}
		return false
	})
	must(t, "polisctl agents exec needy -- touch more")
	r := <-hog
	require.NoError(t, r.err, "%s\n%s", r.out, journal(t))
	require.Contains(t, r.out, "alive", "150 MB are more than the limit before")
	for _, f := range memoryFiles("memory.high") {
		require.Equal(t, "max\n", readFile(t, f), "%s: the agent has the highest limit, so nothing slows it down", f)
	}
	must(t, "polisctl agents remove needy --force && sed -i '/^# memory/,$d' "+file+" && systemctl reload polisd")
}

// result is what a script printed, and its error.
type result struct {
	out string
	err error
}

// memoryFiles returns the files of these names of the agent's sandbox, in whatever hierarchy.
func memoryFiles(names ...string) []string {
	var found []string
	for _, name := range names {
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			found = append(found, glob(root+"/polis.slice/polis-agent@needy.service/sandbox/"+name)...)
		}
	}
	return found
}
