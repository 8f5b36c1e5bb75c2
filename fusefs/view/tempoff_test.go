package view

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/policy"
)

// The rules of its former name apply to a file that was renamed aside also when the agent can make no temporary files
// any more, by whatever name it is aside.
func TestARenamedFileIsReadByTheRulesOfItsFormerNameAlsoWithoutTemporaryFiles(t *testing.T) {
	for _, name := range []string{"src/n", "src/sedAbC123", "src/f.orig"} {
		for _, off := range []bool{false, true} {
			for _, rules := range []policy.Rules{
				{Read: []string{"src/*"}, Write: []string{"src/g"}, Deny: []string{"src/f"}},
				{Read: []string{"src/*"}, Deny: []string{"src/f"}},
				{Read: []string{"src/*"}, Write: []string{"src/sub/y"}, Deny: []string{"src/f"}},
				{Read: []string{"src/*"}, Write: []string{"src/g"}, Ask: []string{"src/f"}},
				{Read: []string{"src/*"}, Write: []string{"src/g"}, Hide: []string{"src/f"}},
			} {
				t.Run(fmt.Sprint(name, off, rules), func(t *testing.T) {
					v := newTempView(t, policy.Rules{Read: []string{"src/*"}, Write: []string{"src/f", "src/g"}})
					require.NoError(t, os.Rename(v.at("src/f"), v.at(name)))
					b, err := os.ReadFile(v.at(name))
					require.NoError(t, err)
					require.Equal(t, "src/f", string(b))
					v.rules, v.off = rules, off
					for range 2 {
						v.again()
						for range 2 {
							_, err = os.ReadFile(v.at(name))
							require.Error(t, err)
						}
						_, err = os.ReadFile(v.at("src/x"))
						require.NoError(t, err)
					}
					require.Error(t, os.Rename(v.at(name), v.at("src/g")))
					require.Error(t, os.Rename(v.at(name), v.at("src/sedXYZ123")))
					require.Error(t, os.Link(v.at(name), v.at("src/g2")))
					require.Error(t, unix.Renameat2(unix.AT_FDCWD, v.at(name), unix.AT_FDCWD, v.at("src/g"), unix.RENAME_EXCHANGE))
				})
			}
		}
	}
}
