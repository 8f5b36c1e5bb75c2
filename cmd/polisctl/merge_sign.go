package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// signTries bounds how often a merge is signed again because the target or the branch moved meanwhile.
const signTries = 3

// mergeSigned has the git of the caller sign the merge commit, and merges that. What is signed is made by polisd, and is
// the merge that it then compares with the present one.
func (a *app) mergeSigned(ctx context.Context, c *client.Client, name string, req api.MergeRequest) (resp api.MergeResponse, err error) {
	for range signTries {
		ask := req
		ask.Sign = true
		if resp, err = c.Merge(ctx, name, ask); err != nil {
			return resp, err
		}
		if resp.ToSign == nil {
			return resp, api.Errorf(api.CodeUnavailable, "polisd is older than polisctl, and has no merge to sign: restart it")
		}
		req.Signed, err = signCommit(ctx, *resp.ToSign)
		if err != nil {
			return resp, err
		}
		if resp, err = c.Merge(ctx, name, req); api.CodeOf(err) != api.CodeRefConflict {
			return resp, err
		}
	}
	return resp, err
}

// signCommit makes the merge commit with the caller's git: its configuration names program and key (gpg.format,
// user.signingKey), and the caller's agent (gpg-agent, ssh-agent) has the key. git reads the configuration of the
// project and the caller, and neither a working tree nor the objects of the project: it runs in a new directory, with
// nothing but the three objects that the commit names.
func signCommit(ctx context.Context, s api.ToSign) (raw []byte, err error) {
	// git itself refuses the repository of another user here.
	dir, err := gitOutput(ctx, s.Project, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, err
	}
	settings, err := signSettings(ctx, s.Project)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "polis-sign-")
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "sign the merge: %w", err)
	}
	defer func() { err = errors.Join(err, removeScratch(scratch)) }()
	objects := filepath.Join(scratch, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return nil, api.Errorf(api.CodeInternal, "sign the merge: %w", err)
	}
	git := func(stdin []byte, args ...string) (string, error) {
		cmd := ownGit(ctx, scratch, slices.Concat(settings, args)...)
		cmd.Env = append(cmd.Env, "GIT_DIR="+strings.TrimSuffix(dir, "\n"), "GIT_WORK_TREE="+scratch, "GIT_OBJECT_DIRECTORY="+objects,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=", "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE="+os.DevNull)
		cmd.Stdin = bytes.NewReader(stdin)
		return signOutput(cmd)
	}
	for i, want := range []string{s.Tree, s.Onto, s.Merged} {
		if i >= len(s.Objects) {
			return nil, api.Errorf(api.CodeInternal, "sign the merge: polisd sent %d objects", len(s.Objects))
		}
		id, err := git(s.Objects[i].Data, "hash-object", "-w", "-t", s.Objects[i].Type, "--stdin")
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(id) != want {
			return nil, api.Errorf(api.CodeInternal, "sign the merge: object %s has another content", want)
		}
	}
	id, err := git([]byte(s.Message), "commit-tree", "-S", "-p", s.Onto, "-p", s.Merged, s.Tree)
	if err != nil {
		return nil, err
	}
	text, err := git(nil, "cat-file", "commit", strings.TrimSpace(id))
	return []byte(text), err
}

// signSettings are options of git with what the caller has configured in the project for identities and signatures. In the
// new directory, conditions on the path of the project (includeIf "gitdir:") do not hold: git compares it as it is named here.
func signSettings(ctx context.Context, project string) (options []string, err error) {
	cmd := ownGit(ctx, project, "config", "-z", "--get-regexp", `^(user|author|committer|gpg)\.`)
	cmd.Env = append(cmd.Env, "PWD="+project)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 { // nothing is configured
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "sign the merge with your git: read your configuration in %s: %w", project, err)
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		options = append(options, "-c", strings.Replace(entry, "\n", "=", 1))
	}
	return options, nil
}

// removeScratch removes the directory, in which git made files and directories of the caller's.
func removeScratch(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	for _, path := range slices.Backward(all) {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// signOutput returns the output of a command of git.
func signOutput(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", api.Errorf(api.CodeBadRequest, "sign the merge with your git: %w: %s", err, api.Shorten(strings.TrimSpace(stderr.String()), 600)).
			WithHint("nothing was merged; git config user.signingKey names your key, and gpg.format its kind")
	}
	return string(out), nil
}
