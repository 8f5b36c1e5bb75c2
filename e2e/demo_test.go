package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"polis/e2e/world"
	pictures "polis/internal/picture"
)

var updatePictures = flag.Bool("update", false, "write docs/pictures/demo.svg again")

// TestDemonstration runs the commands that the README recommends to a new user, on a terminal, and compares a part of
// what they print with the picture of the guide. "make pictures" writes it.
func TestDemonstration(t *testing.T) {
	needRoot(t)
	cmd := exec.CommandContext(t.Context(), "../scripts/demo")
	cmd.Env = append(os.Environ(), "POLIS_BIN="+bin(t))
	svg, lines := demonstrated(t, cmd)
	if *updatePictures {
		require.NoError(t, os.WriteFile(demoPicture, svg, 0o644))
	}
	require.True(t, string(svg) == readFile(demoPicture), "the demonstration is not that of %s: run make pictures, and look at it. It shows:\n%s", demoPicture, strings.Join(lines, "\n"))
}

// TestDemonstrationOnADevelopersMachine: it ends well and shows the same for the user of a normal machine, who calls it by sudo
// with a umask of 077.
func TestDemonstrationOnADevelopersMachine(t *testing.T) {
	w, net := newWorld(t), newInternet(t)
	net.rules(world.UfwRules)
	net.rules(world.DockerRules)
	args := slices.Concat([]string{"--net=" + net.host}, w.Inside(), []string{"sh", "-c", "umask 077; exec ../scripts/demo"})
	cmd := exec.CommandContext(t.Context(), "nsenter", args...)
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output() // that of the home is empty
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "POLIS_BIN="+bin(t), "HOME="+w.Home, "GOCACHE="+strings.TrimSpace(string(cache)), "SUDO_USER="+world.User, fmt.Sprintf("SUDO_UID=%d", world.UID), fmt.Sprintf("SUDO_GID=%d", world.UID))
	svg, lines := demonstrated(t, cmd)
	require.True(t, string(svg) == readFile(demoPicture), "the demonstration differs there. It shows:\n%s", strings.Join(lines, "\n"))
}

const demoPicture = "../docs/pictures/demo.svg"

// demonstrated runs the demonstration on a terminal, and returns the picture of a part of it, and its lines.
func demonstrated(t *testing.T, cmd *exec.Cmd) (svg []byte, lines []string) {
	t.Helper()
	terminal, err := pty.Start(cmd)
	require.NoError(t, err)
	defer terminal.Close()
	var printed bytes.Buffer
	_, _ = printed.ReadFrom(terminal) // a terminal ends with EIO
	out := strings.ReplaceAll(printed.String(), "\r\n", "\n")
	require.NoError(t, cmd.Wait(), out)
	require.Contains(t, out, "Done")

	t.Log(out)
	lines = picturedSteps(t, out)
	cols := 0
	for _, line := range lines {
		cols = max(cols, len(escapes.ReplaceAllString(line, "")))
	}
	return pictures.Terminal("A part of make demo: a lock conflict, a denied path, a merge", cols, lines), lines
}

var (
	escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	varying = []struct {
		what *regexp.Regexp
		as   string
	}{
		{regexp.MustCompile(`/tmp/polis-demo\.[A-Za-z0-9]+`), "/tmp/polis-demo"},
		{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "09:30:00"},
		{regexp.MustCompile(`\(\d+m?s at that time\)`), "(0s at that time)"},
		// A row of locks: held since, how long, and the token, in columns that are wide enough for all.
		{regexp.MustCompile(`(write   )\d+m?s +(use +)\d{16}\b`), "${1}0s     ${2}1767258600000001"},
	}
	hash = regexp.MustCompile(`\b(?:[0-9a-f]{12}|[0-9a-f]{7})\b`)
)

// picturedSteps returns the steps of the demonstration that the picture has. What differs from run to run is replaced:
// the directory, times, tokens of locks, and the hashes of commits, which get the same number wherever one occurs.
func picturedSteps(t require.TestingT, out string) []string {
	for _, v := range varying {
		out = v.what.ReplaceAllString(out, v.as)
	}
	var lines []string
	for _, step := range []string{"7. ", "8. ", "10. "} {
		_, after, ok := strings.Cut(out, "\n\x1b[1m"+step)
		require.True(t, ok, "no step %s in:\n%s", step, out)
		text, _, ok := strings.Cut(after, "\n\n")
		require.True(t, ok, "step %s does not end:\n%s", step, out)
		if lines != nil {
			lines = append(lines, "")
		}
		lines = append(lines, strings.Split("\x1b[1m"+step+text, "\n")...)
	}
	commits := map[string]int{}
	for i := range lines {
		lines[i] = hash.ReplaceAllStringFunc(lines[i], func(h string) string {
			if commits[h[:7]] == 0 {
				commits[h[:7]] = len(commits) + 1
			}
			return strings.Repeat(fmt.Sprintf("c%d", commits[h[:7]]%10), 6)[:len(h)]
		})
	}
	return lines
}

// TestThePictureOfTheDemonstrationDoesNotVary: runs on other days, on slower machines and of other sources have one picture.
func TestThePictureOfTheDemonstrationDoesNotVary(t *testing.T) {
	run := func(dir, at, held, token, merge, commit, base string) string {
		return strings.Join(picturedSteps(t, fmt.Sprintf("6. %[6]s\n\n\x1b[1m7. A\x1b[0m\n  README.md   alice    write   %-7[3]suse    %[4]s   -         ws          -\n    %[2]s  open-write\n      held by:   alice, since %[2]s (%[3]s at that time)\n\n"+
			"\x1b[1m8. B\x1b[0m\n  x\n\n\x1b[1m9. C\x1b[0m\n\n\x1b[1m10. D\x1b[0m\n  merged as %[5]s\n  git -C %[1]s/src log\n  * %.7[5]s Merge\n  * %[7]s Base\n\n\x1b[1m11. E\x1b[0m\n", dir, at, held, token, merge, commit, base)), "\n")
	}
	first := run("/tmp/polis-demo.TraMbj", "13:19:18", "0s", "1795439495886065", "131024a589cf", "02b6484", "49a00be")
	second := run("/tmp/polis-demo.000aaa", "00:00:59", "12s", "1895439495880000", "d8131024aff0", "1112b64", "0a00be4")
	require.Equal(t, first, second)
	require.Contains(t, first, "since 09:30:00 (0s at that time)")
	require.NotEqual(t, first, strings.ReplaceAll(run("", "13:19:18", "0s", "1795439495886065", "131024a589cf", "02b6484", "49a00be"), "Merge", "Other"))
}
