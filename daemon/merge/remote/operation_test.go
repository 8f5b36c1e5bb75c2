package remote

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
)

// remotes records what is requested of the remotes.
type remotes struct {
	calls  []string
	pushed []api.RemoteUpdate
}

func (r *remotes) URL(_ context.Context, remote string) (string, error) {
	if remote != "origin" {
		return "", api.Errorf(api.CodeNotFound, "no remote %s", remote)
	}
	return "https://example.org/x", nil
}

func (r *remotes) Refs(context.Context, string) (api.RemoteResponse, error) {
	r.calls = append(r.calls, "refs")
	return api.RemoteResponse{Head: "refs/heads/main"}, nil
}

func (r *remotes) Fetch(context.Context, string, func(git.Step)) (api.RemoteResponse, error) {
	r.calls = append(r.calls, "fetch")
	return api.RemoteResponse{}, nil
}

func (r *remotes) Push(_ context.Context, _ string, updates []api.RemoteUpdate, _ bool, _ func(git.Step)) (api.RemoteResponse, error) {
	r.calls, r.pushed = append(r.calls, "push"), updates
	return api.RemoteResponse{Refused: map[string]string{"refs/heads/old": "not a fast-forward"}}, nil
}

// operation is one whose rules allow and ask for what is given. Refs of others are refused.
func operation(op string, allows config.Remote, asks ...config.Remote) (*remotes, Operation) {
	r := &remotes{}
	return r, Operation{Remotes: r, Rules: Rules{Agent: "a", Git: config.GitRules{Remote: allows, Ask: asks}},
		Request: api.RemoteRequest{Op: op, Remote: "origin", Updates: []api.RemoteUpdate{{Ref: "refs/heads/agent/a", Commit: "1111"}, {Ref: "refs/heads/b", Commit: "2222"}}},
		Split: func(_ context.Context, updates []api.RemoteUpdate) (allowed []api.RemoteUpdate, refused map[string]string, err error) {
			r.calls = append(r.calls, "split")
			refused = map[string]string{}
			for _, u := range updates {
				if u.Ref == "refs/heads/agent/a" {
					allowed = append(allowed, u)
				} else {
					refused[u.Ref] = "not a branch of agent a"
				}
			}
			return allowed, refused, nil
		},
		Fetched: func(context.Context) error { r.calls = append(r.calls, "fetched"); return nil }}
}

func step(git.Step) {}

func TestARemoteIsUsedOnlyAfterTheRulesAllowIt(t *testing.T) {
	push, fetch := config.RemotePush, config.RemoteFetch
	for name, c := range map[string]struct {
		op     string
		allows config.Remote
		asks   []config.Remote
		code   api.Code
		calls  []string
	}{
		"refs":                      {api.RemoteRefs, fetch, nil, "", []string{"refs"}},
		"fetch":                     {api.RemoteFetch, fetch, nil, "", []string{"fetch", "fetched"}},
		"push":                      {api.RemotePush, push, nil, "", []string{"split", "push"}},
		"nothing is allowed":        {api.RemoteFetch, config.RemoteNone, nil, api.CodeForbidden, nil},
		"a push is not allowed":     {api.RemotePush, fetch, nil, api.CodeForbidden, nil},
		"refs need an approval":     {api.RemoteRefs, push, []config.Remote{fetch}, api.CodeNotApproved, nil},
		"a fetch needs an approval": {api.RemoteFetch, push, []config.Remote{fetch}, api.CodeNotApproved, nil},
		"a push needs an approval":  {api.RemotePush, push, []config.Remote{push}, api.CodeNotApproved, []string{"split"}},
		"an unknown operation":      {"mirror", push, nil, api.CodeBadRequest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := operation(c.op, c.allows, c.asks...)
			_, err := o.Do(t.Context(), "", step)
			if c.code == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, c.code, api.CodeOf(err))
			}
			require.Equal(t, c.calls, r.calls)
		})
	}
}

func TestOnlyAllowedUpdatesArePushed(t *testing.T) {
	r, o := operation(api.RemotePush, config.RemotePush)
	res, err := o.Do(t.Context(), "", step)
	require.NoError(t, err)
	require.Equal(t, o.Request.Updates[:1], r.pushed)
	require.Equal(t, map[string]string{"refs/heads/b": "not a branch of agent a", "refs/heads/old": "not a fast-forward"}, res.Refused)

	r, o = operation(api.RemotePush, config.RemotePush, config.RemotePush)
	o.Request.Updates = o.Request.Updates[1:]
	res, err = o.Do(t.Context(), "", step)
	require.NoError(t, err, "nothing is left to approve")
	require.Equal(t, []string{"split"}, r.calls)
	require.Len(t, res.Refused, 1)

	_, o = operation(api.RemotePush, config.RemotePush)
	o.Split = func(context.Context, []api.RemoteUpdate) ([]api.RemoteUpdate, map[string]string, error) {
		return nil, nil, errors.New("the repository cannot be read")
	}
	_, err = o.Do(t.Context(), "", step)
	require.ErrorContains(t, err, "cannot be read")
}

func TestTheQuestionIsAboutWhatWouldBeDone(t *testing.T) {
	ask := func(op string, allows config.Remote, asks ...config.Remote) (*api.RemoteQuestion, error) {
		_, o := operation(op, allows, asks...)
		return o.Question(t.Context())
	}
	for _, c := range []struct {
		op     string
		allows config.Remote
		asks   []config.Remote
	}{
		{api.RemotePush, config.RemotePush, nil},
		{api.RemotePush, config.RemoteFetch, []config.Remote{config.RemotePush}},
		{api.RemoteFetch, config.RemotePush, []config.Remote{config.RemotePush}},
		{api.RemoteObjects, config.RemotePush, []config.Remote{config.RemoteFetch}},
	} {
		q, err := ask(c.op, c.allows, c.asks...)
		require.NoError(t, err)
		require.Nil(t, q, c)
	}
	q, err := ask(api.RemotePush, config.RemotePush, config.RemotePush)
	require.NoError(t, err)
	require.Equal(t, "push origin agent/a", q.Text, "the refused ref is not part of it")
	require.Equal(t, "remote https://example.org/x", q.Note)
	_, o := operation(api.RemotePush, config.RemotePush, config.RemotePush)
	_, err = o.Do(t.Context(), q.Key, step)
	require.NoError(t, err, "the answer is for this request")

	_, o = operation(api.RemotePush, config.RemotePush, config.RemotePush)
	o.Request.Updates = o.Request.Updates[1:]
	q, err = o.Question(t.Context())
	require.NoError(t, err)
	require.Nil(t, q)
	o.Request.Remote = "none"
	_, err = o.Question(t.Context())
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

func TestTheEventOfAnOperationIsBounded(t *testing.T) {
	long := make([]api.RemoteUpdate, MaxUpdates+1)
	ev := OperationEvent("a", api.RemoteRequest{Op: api.RemotePush, Remote: "origin", Updates: long}, api.RemoteResponse{}, nil)
	require.Equal(t, "agent a: push of origin", ev.Message)
	require.Empty(t, ev.Code)
	require.Len(t, ev.Data["updates"], MaxUpdates)
	ev = OperationEvent("a", api.RemoteRequest{Op: api.RemoteFetch, Remote: "origin"}, api.RemoteResponse{}, api.Errorf(api.CodeUnavailable, "it is down"))
	require.Equal(t, api.CodeUnavailable, ev.Code)
	require.Contains(t, ev.Message, "agent a: fetch of origin: ")
}
