package tomledit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
)

func TestSet(t *testing.T) {
	for name, c := range map[string]struct{ text, table, key, want string }{
		"a commented default":     {"[merge]\n# Text.\n#check = \"\"\n#batch = 16\n", "merge", "check", "[merge]\n# Text.\ncheck = 1\n#batch = 16\n"},
		"after the header":        {"a = 2\n[merge] # here\nbatch = 1\n", "merge", "check", "a = 2\n[merge] # here\ncheck = 1\nbatch = 1\n"},
		"a new table":             {"a = 2\n", "merge.workspaces.ws", "check", "a = 2\n\n[merge.workspaces.ws]\ncheck = 1\n"},
		"the top level":           {"#a = 2\n[t]\n", "", "a", "a = 1\n[t]\n"},
		"the top level of tables": {"[t]\na = 2\n", "", "a", "a = 1\n[t]\na = 2\n"},
		"not in another table":    {"[other]\n#check = \"\"\n[merge]\n", "merge", "check", "[other]\n#check = \"\"\n[merge]\ncheck = 1\n"},
		"not in a list of tables": {"[[merge]]\n#check = 2\n", "x", "check", "[[merge]]\n#check = 2\n\n[x]\ncheck = 1\n"},
		"a long default":          {"[m]\n#check = [\n#1\n#]\n", "m", "check", "[m]\ncheck = 1\n#check = [\n#1\n#]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Set(c.text, c.table, c.key, "1")
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestSetKeepsWhatIsSet(t *testing.T) {
	for _, text := range []string{"[m]\ncheck = 2\n", "[m]\n  \"check\" = 2\n", "[m]\ncheck.x = 1\n"} {
		_, err := Set(text, "m", "check", "1")
		require.ErrorIs(t, err, ErrSet, text)
	}
	_, err := Set("a = \"\"\"\n[m]\n\"\"\"\n", "m", "check", "1")
	require.ErrorContains(t, err, "multi-line")
}

// FuzzSet: of a valid file, a valid file results that has the key and everything that it had.
func FuzzSet(f *testing.F) {
	f.Add("a = 1\n[m]\n#k = 2\nb = 3\n", "m")
	f.Add("x = [\n  [1],\n]\n", "m")
	f.Add("[[m]]\n", "m")
	f.Fuzz(func(t *testing.T, text, table string) {
		var before, after map[string]any
		if _, err := toml.Decode(text, &before); err != nil || header.FindString("["+table+"]") == "" || strings.Contains(table, ".") {
			t.Skip()
		}
		out, err := Set(text, table, "k", "7")
		if err != nil {
			return
		}
		if _, err := toml.Decode(out, &after); err != nil {
			return // the caller's parser refuses it
		}
		if m, ok := after[table].(map[string]any); !ok || m["k"] != int64(7) {
			if errors.Is(err, ErrSet) {
				return
			}
			t.Skip() // a line of a list that is like a header: the caller's check of the value finds it
		} else if delete(m, "k"); len(m) == 0 && before[table] == nil {
			delete(after, table)
		}
		require.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "all else stays as it was")
	})
}
