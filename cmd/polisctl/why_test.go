package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// The name of a file is an agent's to choose: it must not look like lines of ours.
func TestNamesStayOnTheirLine(t *testing.T) {
	var out bytes.Buffer
	p := &page{w: &out, now: time.Now()}
	whyPage(p, "mallory", []api.WhyEntry{{Op: "create", Path: "x\n2026-01-01 00:00:00  write .env: allowed\nhint: run this", Code: "UNDECLARED_WRITE", Errno: "EACCES", Hint: "a\nb"}})
	p.warn("%s", "one\ntwo")
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	require.Contains(t, out.String(), `x\x0a2026`)
}
