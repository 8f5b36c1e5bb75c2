package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatATaskWaitsForNamesTwoWaysOut(t *testing.T) {
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	for want, w := range map[string]TaskWait{
		"a works on a.1 (since 2030-01-02 03:04:05); polisctl tasks cancel a.1 ends it, polisctl tasks show a.1 shows it":          {For: WaitTask, Agent: "a", Task: "a.1", Since: since},
		"the program of a runs (since 2030-01-02 03:04:05); polisctl agents stop a ends it, polisctl agents attach a shows it":     {For: WaitProgram, Agent: "a", Since: since},
		"the program of a runs; polisctl agents stop a ends it, polisctl agents attach a shows it":                                 {For: WaitProgram, Agent: "a"},
		"task a.1 was lost at 2030-01-02 03:04:05; polisctl tasks retry a.1 does it again, polisctl tasks cancel a.1 dismisses it": {For: WaitLost, Agent: "a", Task: "a.1", Since: since},
		"agent a is Stopped; polisctl agents start a begins what waits, polisctl tasks cancel ID drops it":                         {For: WaitStopped, Agent: "a"},
		"agent a is Error; polisctl agents start a begins what waits, polisctl tasks cancel ID drops it":                           {For: WaitError, Agent: "a"},
	} {
		require.Equal(t, want, w.Text())
	}
}
