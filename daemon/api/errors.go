package api

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is a stable, machine-readable name of a failure. Codes never change
// their meaning; texts may.
type Code string

// The codes (seed 000, "Error Handling", and what a view refuses).
const (
	CodeAgentExists          Code = "AGENT_EXISTS"
	CodeAgentNotFound        Code = "AGENT_NOT_FOUND"
	CodeInvalidName          Code = "INVALID_NAME"
	CodeAgentTypeUnavailable Code = "AGENT_TYPE_UNAVAILABLE"
	CodeMaxAgents            Code = "MAX_AGENTS"
	CodeWorktreeFailed       Code = "WORKTREE_FAILED"
	CodeNamespaceFailed      Code = "NAMESPACE_FAILED"
	CodeNetNSFailed          Code = "NET_NS_FAILED"
	CodeMountNSFailed        Code = "MOUNT_NS_FAILED"
	CodePIDNSFailed          Code = "PID_NS_FAILED"
	CodeSysboxUnavailable    Code = "SYSBOX_UNAVAILABLE"
	CodeNSRestoreFailed      Code = "NS_RESTORE_FAILED"
	CodeBridgeFailed         Code = "BRIDGE_FAILED"
	CodeCgroupFailed         Code = "CGROUP_FAILED"
	CodeViewFailed           Code = "VIEW_FAILED"
	CodeBadState             Code = "BAD_STATE"
	CodeUnsavedWork          Code = "UNSAVED_WORK"
	CodeWorkspaceNotFound    Code = "WORKSPACE_NOT_FOUND"
	CodeWorkspaceInvalid     Code = "WORKSPACE_INVALID"
	CodeProjectChanged       Code = "PROJECT_CHANGED"
	CodeWorkspaceOwned       Code = "WORKSPACE_OWNED"
	CodeRefConflict          Code = "REF_CONFLICT"
	CodeMergeConflict        Code = "MERGE_CONFLICT"
	CodeNothingToMerge       Code = "NOTHING_TO_MERGE"
	CodePushFailed           Code = "PUSH_FAILED"
	CodeCageUnavailable      Code = "CAGE_UNAVAILABLE"
	CodeCheckFailed          Code = "CHECK_FAILED"
	CodeSetupFailed          Code = "SETUP_FAILED"
	CodeProtectedPath        Code = "PROTECTED_PATH"
	CodeSignatureRequired    Code = "SIGNATURE_REQUIRED"
	CodeBadTree              Code = "BAD_TREE"
	CodeSubmoduleLost        Code = "SUBMODULE_LOST"
	CodeExclusivePath        Code = "EXCLUSIVE_PATH"
	CodeReadOnly             Code = "READ_ONLY"
	CodeRepoCorrupt          Code = "REPO_CORRUPT"
	CodeBranchLockTimeout    Code = "BRANCH_LOCK_TIMEOUT"
	CodeExclusiveLockTimeout Code = "EXCLUSIVE_LOCK_TIMEOUT"
	CodePathTraversal        Code = "PATH_TRAVERSAL"
	CodeUndeclaredRead       Code = "UNDECLARED_READ"
	CodeUndeclaredWrite      Code = "UNDECLARED_WRITE"
	CodeHidden               Code = "HIDDEN"
	CodeNotApproved          Code = "NOT_APPROVED"
	CodeAlreadyAnswered      Code = "ALREADY_ANSWERED"
	CodeFileLocked           Code = "FILE_LOCKED"
	CodeNotLocked            Code = "NOT_LOCKED"
	CodeQuota                Code = "QUOTA"
	CodeLockdUnavailable     Code = "LOCKD_UNAVAILABLE"
	CodeStaleLock            Code = "STALE_LOCK"
	CodeLockBroken           Code = "LOCK_BROKEN"
	CodeLockCorrupt          Code = "LOCK_CORRUPT"
	CodeStateCorrupt         Code = "STATE_CORRUPT"
	CodeStateNotSaved        Code = "STATE_NOT_SAVED"
	CodeWorktreeCorrupt      Code = "WORKTREE_CORRUPT"
	CodeReconcileConflict    Code = "RECONCILE_CONFLICT"
	CodeWorktreeMissing      Code = "WORKTREE_MISSING"
	CodePortInUse            Code = "PORT_IN_USE"
	CodeNoPorts              Code = "NO_PORTS"
	CodePortNotFound         Code = "PORT_NOT_FOUND"
	CodeOOMKilled            Code = "OOM_KILLED"
	CodePidsLimit            Code = "PIDS_LIMIT"
	CodeHostOvercommitted    Code = "HOST_OVERCOMMITTED"
	CodeLimitBelowUse        Code = "LIMIT_BELOW_USE"
	CodeEgressDenied         Code = "EGRESS_DENIED"
	CodeNetworkBlocked       Code = "NETWORK_BLOCKED"
	CodeSyscallDenied        Code = "SYSCALL_DENIED"
	CodeReapFailed           Code = "REAP_FAILED"
	CodeOrphanProcs          Code = "ORPHAN_PROCS"
	CodeShimUnavailable      Code = "SHIM_UNAVAILABLE"
	CodeCommandNotFound      Code = "COMMAND_NOT_FOUND"
	CodeBadRequest           Code = "BAD_REQUEST"
	CodeInvalidConfig        Code = "INVALID_CONFIG"
	CodeForbidden            Code = "FORBIDDEN"
	CodeNotFound             Code = "NOT_FOUND"
	CodeTooLarge             Code = "TOO_LARGE"
	CodeReceiptsBroken       Code = "RECEIPTS_BROKEN"
	CodeAuditFull            Code = "AUDIT_FULL"
	CodeSnapshotCorrupt      Code = "SNAPSHOT_CORRUPT"
	CodeModelCountsCorrupt   Code = "MODEL_COUNTS_CORRUPT"
	CodeSnapshotDiffers      Code = "SNAPSHOT_DIFFERS"
	CodeTimeout              Code = "TIMEOUT"
	CodeUnavailable          Code = "UNAVAILABLE"
	CodeInternal             Code = "INTERNAL"
)

// Error is the one error type that crosses a border of polis: the JSON body
// of a refused request, the last line of a failed command.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Details map[string]any `json:"details,omitempty"`
	cause   error
}

// Errorf makes an Error. A %w verb keeps the cause for errors.Is, and its hint: what can be done
// about the cause helps here as well.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
	var inner *Error
	if errors.As(err, &inner) {
		e.Hint = inner.Hint
	}
	return e
}

// WithHint sets what the user can do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// With adds one machine-readable detail.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause given to Errorf by %w.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of err, or INTERNAL if it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// AsError returns err as an *Error; an error of another type becomes INTERNAL.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error(), cause: err}
}

// Status is the HTTP status a code is sent with.
func (c Code) Status() int {
	switch c {
	case CodeAgentNotFound, CodeWorkspaceNotFound, CodeNotFound, CodePortNotFound, CodeNotLocked:
		return http.StatusNotFound
	case CodeAgentExists, CodeBadState, CodeUnsavedWork, CodeWorkspaceOwned, CodeProjectChanged, CodeRefConflict, CodeMergeConflict,
		CodeNothingToMerge, CodeCheckFailed, CodeSetupFailed, CodeProtectedPath, CodeSignatureRequired, CodeBadTree, CodeSubmoduleLost, CodeExclusivePath, CodeReadOnly, CodeFileLocked, CodeAlreadyAnswered, CodePortInUse, CodeMaxAgents, CodeNoPorts, CodeLimitBelowUse, CodeHostOvercommitted:
		return http.StatusConflict
	case CodeInvalidName, CodeBadRequest, CodePathTraversal, CodeAgentTypeUnavailable,
		CodeInvalidConfig, CodeWorkspaceInvalid, CodeCommandNotFound:
		return http.StatusBadRequest
	case CodeForbidden, CodeUndeclaredRead, CodeUndeclaredWrite, CodeNotApproved, CodeEgressDenied, CodeNetworkBlocked, CodeSyscallDenied:
		return http.StatusForbidden
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeStateNotSaved:
		return http.StatusInsufficientStorage
	case CodePushFailed:
		return http.StatusBadGateway
	case CodeTimeout, CodeBranchLockTimeout, CodeExclusiveLockTimeout:
		return http.StatusGatewayTimeout
	case CodeUnavailable, CodeShimUnavailable, CodeLockdUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
