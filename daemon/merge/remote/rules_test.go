package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/config"
)

// The text has what an answer can be remembered for, the key all that was shown.
func TestTheQuestionAboutAPush(t *testing.T) {
	a, b := "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	push := func(updates ...api.RemoteUpdate) api.RemoteQuestion {
		return OperationQuestion(api.RemoteRequest{Op: api.RemotePush, Remote: "origin"}, updates)
	}
	q := push(api.RemoteUpdate{Ref: "refs/tags/v1", Commit: b}, api.RemoteUpdate{Ref: "refs/heads/x", Commit: a})
	require.Equal(t, "push origin refs/tags/v1 x", q.Text)
	require.Equal(t, "refs/heads/x "+a+"\nrefs/tags/v1 "+b, q.Detail)
	require.Equal(t, q.Key, push(api.RemoteUpdate{Ref: "refs/heads/x", Commit: a}, api.RemoteUpdate{Ref: "refs/tags/v1", Commit: b}).Key, "the order is git's")

	plain := push(api.RemoteUpdate{Ref: "refs/heads/x", Commit: a})
	later := push(api.RemoteUpdate{Ref: "refs/heads/x", Commit: b})
	require.Equal(t, plain.Text, later.Text)
	require.NotEqual(t, plain.Key, later.Key, "an answer for once is for these commits")
	require.Equal(t, "push origin +x", push(api.RemoteUpdate{Ref: "refs/heads/x", Commit: a, Force: true}).Text)
	require.Equal(t, "push origin refs/heads/+x", push(api.RemoteUpdate{Ref: "refs/heads/+x", Commit: a}).Text, "not a forced update of x")
	require.Equal(t, "push origin +refs/heads/+x", push(api.RemoteUpdate{Ref: "refs/heads/+x", Commit: a, Force: true}).Text)
	require.Equal(t, "push origin refs/heads/refs/tags/v1", push(api.RemoteUpdate{Ref: "refs/heads/refs/tags/v1", Commit: a}).Text, "not the tag")
	require.Equal(t, "push origin :x", push(api.RemoteUpdate{Ref: "refs/heads/x"}).Text)
	require.Equal(t, "fetch origin", OperationQuestion(api.RemoteRequest{Op: api.RemoteFetch, Remote: "origin"}, nil).Text)
	require.Equal(t, "fetch origin", OperationQuestion(api.RemoteRequest{Op: api.RemoteRefs, Remote: "origin"}, nil).Text)
}

// TestOnlyTheApprovedRequestIsDone: every request that an operation needs an answer for is refused
// with another key than its own.
func TestOnlyTheApprovedRequestIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := func(name string) (api.RemoteRequest, []api.RemoteUpdate) {
			op := rapid.SampledFrom([]string{api.RemoteRefs, api.RemoteFetch, api.RemotePush}).Draw(t, name+".op")
			req := api.RemoteRequest{Op: op, Remote: rapid.SampledFrom([]string{"origin", "backup"}).Draw(t, name+".remote"), DryRun: op == api.RemotePush && rapid.Bool().Draw(t, name+".dry")}
			if op == api.RemotePush {
				req.Updates = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) api.RemoteUpdate {
					return api.RemoteUpdate{Ref: rapid.SampledFrom([]string{"refs/heads/x", "refs/heads/y", "refs/tags/x"}).Draw(t, "ref"),
						Commit: rapid.SampledFrom([]string{"1111", "2222"}).Draw(t, "commit"), Force: rapid.Bool().Draw(t, "force")}
				}), 1, 3).Draw(t, name+".updates")
			}
			return req, req.Updates
		}
		rules := Rules{Git: config.GitRules{Remote: config.RemotePush, Ask: []config.Remote{config.RemoteFetch, config.RemotePush}}}
		req, updates := request("asked")
		other, others := request("done")
		q, done := OperationQuestion(req, updates), OperationQuestion(other, others)
		require.NoError(t, rules.CheckApproval(req, updates, q.Key))
		err := rules.CheckApproval(other, others, q.Key)
		if q.Text == done.Text && q.Detail == done.Detail {
			require.NoError(t, err)
		} else {
			require.Equal(t, api.CodeNotApproved, api.CodeOf(err))
		}
		require.Error(t, rules.CheckApproval(req, updates, ""))
		rules.Git.Ask = nil
		require.NoError(t, rules.CheckApproval(req, updates, ""))
	})
}

func TestWhatAnAgentMayRequest(t *testing.T) {
	for name, c := range map[string]struct {
		rules Rules
		can   map[string]bool
	}{
		"nothing":     {Rules{Git: config.GitRules{Remote: config.RemoteNone}}, map[string]bool{}},
		"fetch":       {Rules{Git: config.GitRules{Remote: config.RemoteFetch}}, map[string]bool{api.RemoteRefs: true, api.RemoteFetch: true}},
		"push":        {Rules{Git: config.GitRules{Remote: config.RemotePush}}, map[string]bool{api.RemoteRefs: true, api.RemoteFetch: true, api.RemotePush: true}},
		"of a worker": {Rules{Parent: "alice", Git: config.GitRules{Remote: config.RemotePush}}, map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range []string{api.RemoteRefs, api.RemoteFetch, api.RemotePush} {
				err := c.rules.Permit(op)
				if c.can[op] {
					require.NoError(t, err, op)
				} else {
					require.Equal(t, api.CodeForbidden, api.CodeOf(err), op)
				}
			}
		})
	}
}
