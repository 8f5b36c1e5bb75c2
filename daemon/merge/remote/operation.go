package remote

import (
	"context"
	"fmt"
	"maps"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Remotes performs operations on the remotes of a project (package remote).
type Remotes interface {
	// URL returns the address of a remote, without user name and password.
	URL(ctx context.Context, remote string) (string, error)
	Refs(ctx context.Context, remote string) (api.RemoteResponse, error)
	Fetch(ctx context.Context, remote string, step func(git.Step)) (api.RemoteResponse, error)
	Push(ctx context.Context, remote string, updates []api.RemoteUpdate, dryRun bool, step func(git.Step)) (api.RemoteResponse, error)
}

// Operation is a request of one agent. Assign the fields, then call Question or Do.
type Operation struct {
	Rules   Rules
	Request api.RemoteRequest
	Remotes Remotes
	// Split divides the updates of a push into those that the agent may push and the refused ones,
	// with the reason of each by ref (see PushJudge).
	Split func(ctx context.Context, updates []api.RemoteUpdate) (allowed []api.RemoteUpdate, refused map[string]string, err error)
	// Fetched is called after a fetch.
	Fetched func(context.Context) error
}

// Question returns what a person has to approve before the operation, nil if nothing. It is about
// what would be done: an operation that is refused anyway needs no approval.
func (o Operation) Question(ctx context.Context) (*api.RemoteQuestion, error) {
	if permitted := o.Rules.Permit(o.Request.Op) == nil; !permitted || o.Request.Op == api.RemoteObjects || !o.Rules.NeedsApproval(o.Request.Op) {
		return nil, nil
	}
	url, err := o.Remotes.URL(ctx, o.Request.Remote)
	if err != nil {
		return nil, err
	}
	var allowed []api.RemoteUpdate
	if o.Request.Op == api.RemotePush {
		if allowed, _, err = o.Split(ctx, o.Request.Updates); err != nil || len(allowed) == 0 {
			return nil, err
		}
	}
	q := OperationQuestion(o.Request, allowed)
	q.Note = "remote " + url
	return &q, nil
}

// Do performs the operation if the agent may request it and, where the rules need one, a person has
// approved it. approved is the key of the question that a person approved, "" if none. Nothing of
// the remote is read before.
func (o Operation) Do(ctx context.Context, approved string, step func(git.Step)) (api.RemoteResponse, error) {
	req := o.Request
	if err := o.Rules.Permit(req.Op); err != nil {
		return api.RemoteResponse{}, err
	}
	if req.Op == api.RemotePush {
		return o.push(ctx, approved, step)
	}
	if err := o.Rules.CheckApproval(req, nil, approved); err != nil {
		return api.RemoteResponse{}, err
	}
	switch req.Op {
	case api.RemoteRefs:
		return o.Remotes.Refs(ctx, req.Remote)
	case api.RemoteFetch:
		res, err := o.Remotes.Fetch(ctx, req.Remote, step)
		if err == nil {
			err = o.Fetched(ctx)
		}
		return res, err
	}
	return api.RemoteResponse{}, api.Errorf(api.CodeBadRequest, "op = %q: must be refs, fetch or push", api.Shorten(req.Op, 32))
}

// push pushes the allowed updates, of which the approval must be, and returns why others are refused.
func (o Operation) push(ctx context.Context, approved string, step func(git.Step)) (api.RemoteResponse, error) {
	req := o.Request
	allowed, refused, err := o.Split(ctx, req.Updates)
	if err != nil || len(allowed) == 0 {
		return api.RemoteResponse{Refused: refused}, err
	}
	if err := o.Rules.CheckApproval(req, allowed, approved); err != nil {
		return api.RemoteResponse{}, err
	}
	res, err := o.Remotes.Push(ctx, req.Remote, allowed, req.DryRun, step)
	all := map[string]string{}
	maps.Copy(all, refused)
	maps.Copy(all, res.Refused)
	res.Refused = all
	return res, err
}

// OperationEvent reports an operation of an agent and its result.
func OperationEvent(agent string, req api.RemoteRequest, res api.RemoteResponse, err error) api.Event {
	remote := api.Shorten(req.Remote, 64)
	ev := api.Event{Type: api.EventRemote, Agent: agent, Message: fmt.Sprintf("agent %s: %s of %s", agent, req.Op, remote),
		Data: map[string]any{"op": req.Op, "remote": remote, "updates": req.Updates[:min(len(req.Updates), MaxUpdates)], "refused": res.Refused, "dry_run": req.DryRun}}
	if err != nil {
		ev.Code, ev.Message = api.CodeOf(err), ev.Message+": "+err.Error()
	}
	return ev
}
