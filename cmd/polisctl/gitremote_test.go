package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// talk has a remote helper answer what git would say.
func talk(t *testing.T, said string, ask func(api.RemoteRequest) (api.RemoteResponse, error)) (out, errs string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	h := &remoteHelper{remote: "origin", in: bufio.NewReader(strings.NewReader(said)), out: &o, errs: &e,
		ask: func(_ context.Context, r api.RemoteRequest, say func(string)) (api.RemoteResponse, error) {
			require.Equal(t, "origin", r.Remote)
			say("step\x1b[2J")
			return ask(r)
		},
		resolve: func(_ context.Context, name string) (string, error) {
			if name == "none" {
				return "", errors.New("nothing\nthere")
			}
			return "id-of-" + name, nil
		}}
	err = h.run(t.Context())
	return o.String(), e.String(), err
}

func TestRemoteHelperSpeaksWithGit(t *testing.T) {
	list := func(r api.RemoteRequest) (api.RemoteResponse, error) {
		return api.RemoteResponse{Head: "refs/heads/main", Refs: []api.RemoteRef{{Name: "refs/heads/main", Commit: "aa"}}}, nil
	}
	out, errs, err := talk(t, "capabilities\noption progress true\noption depth 1\nlist\nfetch aa refs/heads/main\nfetch bb refs/tags/x\n\n\n", list)
	require.NoError(t, err)
	require.Equal(t, "fetch\npush\noption\n\nok\nunsupported\naa refs/heads/main\n@refs/heads/main HEAD\n\n\n", out)
	require.Equal(t, "step\\x1b[2J\n", errs)

	var asked api.RemoteRequest
	out, errs, err = talk(t, "option verbosity 0\noption dry-run true\npush +refs/heads/a:refs/heads/x\npush :refs/heads/y\npush none:refs/heads/z\n\n\n", func(r api.RemoteRequest) (api.RemoteResponse, error) {
		asked = r
		return api.RemoteResponse{Refused: map[string]string{"refs/heads/y": "not\nyours"}}, nil
	})
	require.NoError(t, err)
	require.Empty(t, errs)
	require.Equal(t, api.RemoteRequest{Op: api.RemotePush, Remote: "origin", DryRun: true, Updates: []api.RemoteUpdate{
		{Ref: "refs/heads/x", Commit: "id-of-refs/heads/a", Force: true}, {Ref: "refs/heads/y"}}}, asked)
	require.Equal(t, 3, strings.Count(out[strings.Index(out, "error"):], "\n")-1, "one line each: %q", out)
	require.Contains(t, out, "ok refs/heads/x\n")

	_, _, err = talk(t, "list for-push\n", func(r api.RemoteRequest) (api.RemoteResponse, error) {
		require.Equal(t, api.RemoteRefs, r.Op)
		return api.RemoteResponse{}, fmt.Errorf("no")
	})
	require.ErrorContains(t, err, "no")
	_, _, err = talk(t, "import x\n", list)
	require.Error(t, err)
}
