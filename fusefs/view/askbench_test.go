package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/policy"
)

// BenchmarkAskRules opens files for reading and for writing in two views, of which one also has rules
// that ask about other paths, turn and turn about. The figures are the medians of the ratios of CPU
// time, of caller and server together: they do not mind other work on the machine.
func BenchmarkAskRules(b *testing.B) {
	top := benchDir(b)
	const files = 200
	var views [2]string
	for i := range views {
		rules := policy.Rules{Read: []string{"**"}, Write: []string{"src/**"}}
		for n := range 18 {
			rules.Deny = append(rules.Deny, fmt.Sprintf("closed/%d/**/*.pem", n))
			if i == 1 {
				rules.Ask = append(rules.Ask, fmt.Sprintf("deploy/%d/**", n))
			}
		}
		back, mnt := filepath.Join(top, "back"+strconv.Itoa(i)), filepath.Join(top, "mnt"+strconv.Itoa(i))
		for _, d := range []string{back, mnt, back + "/src"} {
			require.NoError(b, os.Mkdir(d, 0o777))
			require.NoError(b, os.Chown(d, nobody, nobody))
		}
		for n := range files {
			at := back + "/src/" + strconv.Itoa(n)
			require.NoError(b, os.WriteFile(at, []byte("x"), 0o644))
			require.NoError(b, os.Chown(at, nobody, nobody))
		}
		benchView(b, rules, back, mnt)
		views[i] = mnt
	}
	ratios := map[string][]float64{}
	for round := 0; b.Loop(); round++ {
		for name, flags := range map[string]int{"read": unix.O_RDONLY, "write": unix.O_WRONLY} {
			var took [2]time.Duration
			for turn := range views {
				i := (turn + round) % 2 // each is the first as often as the other
				took[i] = asNobody(b, func() error {
					for range 10 {
						for n := range files {
							if err := openFor(views[i]+"/src/"+strconv.Itoa(n), flags); err != nil {
								return err
							}
						}
					}
					return nil
				})
			}
			ratios[name] = append(ratios[name], float64(took[1])/float64(took[0]))
		}
	}
	for name, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"-with/without")
	}
	b.ReportMetric(0, "ns/op")
}
