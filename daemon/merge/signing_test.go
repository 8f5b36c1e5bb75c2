package merge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyASignedMergeOfTwoCommitsIsTaken(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	good := "tree " + a + "\nparent " + b + "\nparent " + c + "\nauthor A <a@b> 1 +0000\ncommitter A B <a@b> 1 -0330\ngpgsig -----BEGIN SSH SIGNATURE-----\n U1NI\n -----END SSH SIGNATURE-----\n\nMerge\n\nmore\n"
	got, err := parseSigned([]byte(good))
	require.NoError(t, err)
	require.Equal(t, signedCommit{a, []string{b, c}, "Merge\n\nmore\n"}, got)
	for why, change := range map[string][2]string{
		"no signature":     {"gpgsig -----BEGIN SSH SIGNATURE-----\n U1NI\n -----END SSH SIGNATURE-----\n", ""},
		"one parent":       {"parent " + c + "\n", ""},
		"three parents":    {"author", "parent " + c + "\nauthor"},
		"an odd parent":    {"parent " + c, "parent refs/heads/main"},
		"another header":   {"\n\nMerge", "\nx hidden\n\nMerge"},
		"a second message": {"gpgsig", "encoding latin1\ngpgsig"},
		"no person":        {"A B <a@b> 1 -0330", "A B 1 -0330"},
		"an early space":   {"author", " author"},
		"a NUL":            {"Merge", "Mer\x00ge"},
		"no message":       {"\n\nMerge\n\nmore\n", "\n"},
		"too large":        {"more", strings.Repeat("more", maxSigned)},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		require.NotEqual(t, good, changed, why)
		_, err := parseSigned([]byte(changed))
		require.Error(t, err, why)
	}
}
