package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxSigned bounds a signed commit, in bytes.
const maxSigned = 256 << 10

// ToSign returns the merge that a person signs. It moves nothing, and refuses what Merge refuses.
func (m *Merger) ToSign(ctx context.Context, req Request) (api.ToSign, error) {
	if err := git.CheckBranch(req.Branch); err != nil {
		return api.ToSign{}, api.Errorf(api.CodeBadRequest, "%w", err)
	}
	target, err := m.target(ctx, "")
	if err != nil {
		return api.ToSign{}, err
	}
	onto, _, err := m.synced(ctx, target)
	if err != nil {
		return api.ToSign{}, err
	}
	res, err := m.prepare(ctx, req, target, onto)
	if err != nil {
		return api.ToSign{}, err
	}
	s := api.ToSign{Tree: res.Tree, Onto: res.Onto, Merged: res.Merged}
	if s.Message, err = m.message(ctx, req, target, personal(req)); err != nil {
		return s, err
	}
	for _, o := range []struct{ kind, id string }{{"tree", s.Tree}, {"commit", s.Onto}, {"commit", s.Merged}} {
		data, err := m.Workspace.Bare().Run(ctx, "cat-file", o.kind, o.id)
		if err != nil {
			return s, api.Errorf(api.CodeRepoCorrupt, "read %s %s: %w", o.kind, o.id, err)
		}
		s.Objects = append(s.Objects, api.RawObject{Type: o.kind, Data: data})
	}
	return s, nil
}

// personal are the trailers of a merge that a person signs: as any that polis makes with the identity of a person.
func personal(req Request) []string { return signature{owners: true}.trailers(req.Trailer) }

// StoreSigned stores a commit that a person signed, and returns its name. No ref leads to it.
func (m *Merger) StoreSigned(ctx context.Context, raw []byte) (string, error) {
	if _, err := parseSigned(raw); err != nil {
		return "", api.Errorf(api.CodeBadRequest, "the signed commit: %w", err)
	}
	out, err := m.Workspace.Bare().Do(ctx, git.Cmd{Args: []string{"hash-object", "-w", "-t", "commit", "--stdin"}, Stdin: bytes.NewReader(raw)})
	if err != nil {
		return "", api.Errorf(api.CodeBadRequest, "store the signed commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// conclude makes the merge commit of a result, or takes the one that a person has signed.
func (m *Merger) conclude(ctx context.Context, req Request, who signature, res *Result) error {
	if req.Signed == "" && req.MustSign {
		return api.Errorf(api.CodeSignatureRequired, "merges into %s wait for a signature (merge.sign), and this one of %s has none", res.Target, req.Branch).
			WithHint("as the owner of the project: polisctl merge %s --sign", req.Agent)
	}
	if err := m.bringLFS(ctx, req, res); err != nil {
		return err
	}
	if req.Signed == "" {
		return m.commit(ctx, req, who, res)
	}
	raw, err := m.Workspace.Bare().Run(ctx, "cat-file", "commit", req.Signed)
	if err != nil {
		return api.Errorf(api.CodeRefConflict, "read the signed merge of %s: %w", req.Branch, err).WithHint("sign it again: polisctl merge %s --sign", req.Agent)
	}
	c, err := parseSigned(raw)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read the signed merge of %s: %w", req.Branch, err)
	}
	message, err := m.message(ctx, req, res.Target, personal(req))
	if err != nil {
		return err
	}
	if c.tree != res.Tree || !slices.Equal(c.parents, []string{res.Onto, res.Merged}) || strings.TrimRight(c.message, "\n") != strings.TrimRight(message, "\n") {
		return api.Errorf(api.CodeRefConflict, "what was signed is another merge of %s than the present one: %s, the branch or the message has changed since", req.Branch, res.Target).
			WithHint("sign it again: polisctl merge %s --sign", req.Agent)
	}
	res.Commit = req.Signed
	return nil
}

// NoteUnsigned adds to the note of a revert that its commit is not signed, if merges must be.
func NoteUnsigned(note string, must bool) string {
	if !must {
		return note
	}
	const text = "the commit of the revert is not signed (merge.sign is for merges)"
	if note == "" {
		return text
	}
	return note + "; " + text
}

// signedCommit is what a signed commit says.
type signedCommit struct {
	tree    string
	parents []string
	message string
}

// person matches an author or committer, as git writes it.
var person = regexp.MustCompile(`^[^<>\x00]*<[^<>\x00]*> [0-9]{1,12} [+-][0-9]{4}$`)

// parseSigned reads a merge commit with a signature (gitformat-signature(5)). It accepts the headers that git
// writes, in git's order, and no other: nothing can be hidden from who reads the commit later.
func parseSigned(raw []byte) (c signedCommit, err error) {
	if len(raw) > maxSigned || bytes.IndexByte(raw, 0) >= 0 {
		return c, fmt.Errorf("it has more than %d KiB, or a NUL", maxSigned>>10)
	}
	head, message, ok := strings.Cut(string(raw), "\n\n")
	if !ok {
		return c, errors.New("it has no message")
	}
	c.message = message
	order, signed := []string{"tree", "parent", "parent", "author", "committer", "gpgsig"}, false
	for line := range strings.SplitSeq(head, "\n") {
		if strings.HasPrefix(line, " ") && signed {
			continue // of the signature
		}
		key, value, _ := strings.Cut(line, " ")
		if key == "gpgsig-sha256" {
			key = "gpgsig"
		}
		if len(order) == 0 || key != order[0] {
			return c, fmt.Errorf("%q is not the next header of a signed merge of two commits", api.Shorten(key, 40))
		}
		order = order[1:]
		switch key {
		case "tree", "parent":
			if !git.IsOID(value) {
				return c, fmt.Errorf("%s %q is no name of an object", key, api.Shorten(value, 80))
			}
			if c.tree == "" {
				c.tree = value
			} else {
				c.parents = append(c.parents, value)
			}
		case "gpgsig":
			signed = true
		default:
			if !person.MatchString(value) {
				return c, fmt.Errorf("%s %q is no person and time", key, api.Shorten(value, 120))
			}
		}
	}
	if len(order) > 0 {
		return c, fmt.Errorf("it has no %s", order[0])
	}
	return c, nil
}
