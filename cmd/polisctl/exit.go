package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/internal/escape"
)

// The exit statuses. exitTable is what they mean.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitForbidden   = 5
	exitUnavailable = 6
	exitTimeout     = 7
	exitExec        = 125
	exitNoCommand   = 127
	exitSignal      = 128 // plus the number of the signal
)

// exitRow is one line of the documented table.
type exitRow struct {
	Status  int
	Meaning string
	// Codes are the error codes that end polisctl with this status.
	Codes []api.Code
}

// exitTable is the only table of exit statuses: man page, tests and exitOf use
// it. A code that it does not list means general failure.
func exitTable() []exitRow {
	return []exitRow{
		{exitOK, "Done.", nil},
		{exitFailure, "The work failed.", []api.Code{
			api.CodeInternal, api.CodeWorktreeFailed, api.CodeNamespaceFailed, api.CodeCgroupFailed, api.CodeViewFailed,
			api.CodeRepoCorrupt, api.CodeStateCorrupt, api.CodeStateNotSaved, api.CodeLockCorrupt, api.CodeWorktreeMissing, api.CodeWorktreeCorrupt, api.CodeReconcileConflict, api.CodeReapFailed, api.CodeOOMKilled, api.CodePidsLimit,
			api.CodeInvalidConfig, api.CodeWorkspaceInvalid, api.CodeAgentTypeUnavailable, api.CodeQuota,
			api.CodePushFailed, api.CodeCheckFailed, api.CodeSetupFailed, api.CodeSnapshotCorrupt, api.CodeModelCountsCorrupt, api.CodeSnapshotDiffers, api.CodeReceiptsBroken, api.CodeAuditFull, api.CodeBadTree, api.CodeNetNSFailed, api.CodeMountNSFailed, api.CodePIDNSFailed, api.CodeSysboxUnavailable, api.CodeCageUnavailable, api.CodeNSRestoreFailed,
			api.CodeBridgeFailed, api.CodeOrphanProcs,
		}},
		{exitUsage, "The arguments are wrong; nothing was done.", []api.Code{
			api.CodeBadRequest, api.CodeInvalidName, api.CodePathTraversal, api.CodeTooLarge,
		}},
		{exitNotFound, "There is no such agent, workspace, lock, port or path.", []api.Code{
			api.CodeAgentNotFound, api.CodeWorkspaceNotFound, api.CodeNotFound, api.CodePortNotFound, api.CodeNotLocked,
			api.CodeHidden,
		}},
		{exitConflict, "The request conflicts with the present state: something exists already, is locked or is in another state.", []api.Code{
			api.CodeAgentExists, api.CodeMaxAgents, api.CodeBadState, api.CodeUnsavedWork, api.CodeRefConflict,
			api.CodeMergeConflict, api.CodeNothingToMerge, api.CodeSubmoduleLost, api.CodeExclusivePath, api.CodeReadOnly, api.CodeWorkspaceOwned, api.CodeProjectChanged, api.CodeFileLocked, api.CodeAlreadyAnswered, api.CodeLockBroken, api.CodePortInUse, api.CodeNoPorts, api.CodeLimitBelowUse, api.CodeHostOvercommitted,
		}},
		{exitForbidden, "Not permitted.", []api.Code{
			api.CodeForbidden, api.CodeUndeclaredRead, api.CodeUndeclaredWrite, api.CodeProtectedPath, api.CodeSignatureRequired, api.CodeNotApproved, api.CodeEgressDenied, api.CodeNetworkBlocked, api.CodeSyscallDenied,
		}},
		{exitUnavailable, "polisd, or the agent's sandbox, cannot be reached.", []api.Code{
			api.CodeUnavailable, api.CodeShimUnavailable, api.CodeLockdUnavailable, api.CodeStaleLock,
		}},
		{exitTimeout, "It took too long.", []api.Code{
			api.CodeTimeout, api.CodeBranchLockTimeout, api.CodeExclusiveLockTimeout,
		}},
		{exitExec, "For exec, shell and attach: polis itself failed. Any other status is that of the command.", nil},
		{exitNoCommand, "The command was not found in the sandbox, as in sh(1).", []api.Code{
			api.CodeCommandNotFound,
		}},
		{exitSignal, "Plus N: signal N ended polisctl or, for exec and shell, the command.", nil},
	}
}

// childStatus ends polisctl without a message, with the status of an agent's command or of the
// signal that ended a command without an end of its own.
type childStatus int

func (c childStatus) Error() string { return fmt.Sprintf("command ended with status %d", int(c)) }

// passesStatus marks the verbs whose status is the command's own.
const passesStatus = "passes-status"

// exitOf translates an error of cmd to an exit status.
func exitOf(cmd *cobra.Command, err error) int {
	var child childStatus
	if errors.As(err, &child) {
		return int(child) & 0xff
	}
	if sig, ok := wasInterrupted(err); ok {
		return exitSignal + int(sig)
	}
	code := api.CodeOf(err)
	if cmd != nil && cmd.Annotations[passesStatus] != "" && code != api.CodeCommandNotFound {
		return exitExec
	}
	for _, row := range exitTable() {
		if slices.Contains(row.Codes, code) {
			return row.Status
		}
	}
	return exitFailure
}

// fail prints err on standard error and returns the exit status.
func (a *app) fail(cmd *cobra.Command, args []string, err error) int {
	var known *api.Error
	var child childStatus
	switch {
	case errors.As(err, &child):
		return exitOf(cmd, err)
	case !errors.As(err, &known):
		// What is not an *api.Error comes from the parser of the command line.
		known = usagef("%w", err)
		err = known
	}
	status := exitOf(cmd, err)
	if a.json || a.misread && asksJSON(args) {
		a.failJSON(known)
		return status
	}
	fmt.Fprintf(a.stderr, "polisctl: %s\n", cleanText(agenttext.Named(known.Message, known.Details)))
	a.failPaths(known)
	a.failOutput(known)
	hint := known.Hint
	if hint == "" && known.Code == api.CodeBadRequest && cmd != nil {
		hint = cmd.CommandPath() + " --help"
	}
	if hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", cleanText(hint))
	}
	return status
}

// maxPaths bounds how many paths of an error people are shown; --json has all.
const maxPaths = 20

// failPaths names the paths an error is about, such as those that conflict,
// unless its text does.
func (a *app) failPaths(e *api.Error) {
	paths, ok := e.Details["paths"].([]any)
	if !ok {
		return
	}
	for i, p := range paths {
		if i == maxPaths {
			fmt.Fprintf(a.stderr, "  and %d more: the same command with --json lists all\n", len(paths)-i)
			return
		}
		if text := fmt.Sprint(p); !strings.Contains(e.Message, text) {
			fmt.Fprintf(a.stderr, "  %s\n", clean(text))
		}
	}
}

// failOutput prints the last lines of what a check or a setup command printed, marked as output.
func (a *app) failOutput(e *api.Error) {
	text, ok := e.Details["output"].(string)
	if !ok || strings.TrimSpace(text) == "" || e.Code != api.CodeCheckFailed && e.Code != api.CodeSetupFailed {
		return
	}
	fmt.Fprint(a.stderr, lastMarked(text))
}

func (a *app) failJSON(e *api.Error) {
	out, err := json.Marshal(map[string]*api.Error{"error": e})
	if err != nil { // details that came as JSON go out as JSON; kept for the impossible
		out, _ = json.Marshal(map[string]*api.Error{"error": {Code: e.Code, Message: e.Message, Hint: e.Hint}})
	}
	fmt.Fprintf(a.stderr, "%s\n", escape.JSON(out))
}

// asksJSON looks for --json where the command line could not be parsed.
func asksJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// complain prints an error that does not end polisctl.
func (a *app) complain(err error) {
	e := api.AsError(err)
	if a.json {
		a.failJSON(e)
		return
	}
	fmt.Fprintf(a.stderr, "polisctl: %s\n", cleanText(e.Message))
	a.failPaths(e)
	if e.Hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", cleanText(e.Hint))
	}
}
