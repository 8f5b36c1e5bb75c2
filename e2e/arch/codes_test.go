package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// provoked has, for every code of the reference, the file and name of a test that causes the
// failure.
var provoked = map[api.Code]string{
	api.CodeAgentExists:          "e2e/agents_test.go TestAgentLimitAndNames",
	api.CodeAgentNotFound:        "e2e/pull_test.go TestWithoutAForgeThePullRequestIsDescribed",
	api.CodeInvalidName:          "daemon/agent/manager_test.go TestAddRefusesBadRequests",
	api.CodeAgentTypeUnavailable: "e2e/agents_test.go TestAgentLimitAndNames",
	api.CodeMaxAgents:            "e2e/agents_test.go TestAgentLimitAndNames",
	api.CodeBadState:             "daemon/agent/states_test.go TestEveryOtherTransitionIsRefused",
	api.CodeUnsavedWork:          "e2e/agents_test.go TestRemoveKeepsUnsavedWork",
	api.CodeWorkspaceNotFound:    "daemon/git/worktree/worktree_test.go TestUpRefusesWithAHint",
	api.CodeWorkspaceInvalid:     "daemon/git/worktree/worktree_test.go TestUpRefusesWithAHint",
	api.CodeWorkspaceOwned:       "e2e/owner_test.go TestAWorkspaceHasOnePolisd",

	api.CodeWorktreeFailed:       "daemon/git/worktree/worktree_test.go TestAddUsesBranches",
	api.CodeRepoCorrupt:          "e2e/damagedrepo_test.go TestADamagedRepositoryHaltsWhatBuildsOnIt",
	api.CodeRefConflict:          "daemon/git/worktree/worktree_test.go TestSyncFollowsTheProject",
	api.CodeMergeConflict:        "e2e/git_test.go TestMergeConflictChangesNothing",
	api.CodeProtectedPath:        "e2e/gate_test.go TestProtectedPathsAreMergedWhenAPersonAcceptsThem",
	api.CodeSignatureRequired:    "e2e/signing_test.go TestMergesWaitForASignature",
	api.CodeModelCountsCorrupt:   "daemon/gateway/ledger/ledger_test.go TestDamagedSumsAreReportedAndKept",
	api.CodeReadOnly:             "e2e/readonly_test.go TestAReadOnlyAgentReadsACommit",
	api.CodeExclusivePath:        "e2e/gate_test.go TestExclusivePathsAreOneAgentsOnly",
	api.CodeBadTree:              "daemon/merge/trees_test.go TestWhatCannotBeCheckedOutIsNotMerged",
	api.CodeSubmoduleLost:        "e2e/submodules_test.go TestASubmodulesCommitMustBeWhereTheProjectGetsIt",
	api.CodeNothingToMerge:       "e2e/agents_test.go TestTwoAgentsWorkApart",
	api.CodeSetupFailed:          "e2e/setup_test.go TestASetupCommandIsConfined",
	api.CodeCheckFailed:          "e2e/queue_test.go TestACheckStandsBetweenABranchAndItsTarget",
	api.CodePushFailed:           "e2e/pull_test.go TestWithoutAForgeThePullRequestIsDescribed",
	api.CodeBranchLockTimeout:    "daemon/git/leases/git_test.go TestPropertyTimeout",
	api.CodeExclusiveLockTimeout: "daemon/git/leases/git_test.go TestPropertyTimeout",

	api.CodeNamespaceFailed:   "e2e/codes_test.go TestAddReportsWhichPartFailed",
	api.CodeNetNSFailed:       "e2e/codes_test.go TestAddReportsWhichPartFailed",
	api.CodeMountNSFailed:     "e2e/degraded_test.go TestWithoutMountNamespacesThereAreNoAgents",
	api.CodePIDNSFailed:       "e2e/degraded_test.go TestDegradedWithoutProcessNamespaces",
	api.CodeSysboxUnavailable: "e2e/degraded_test.go TestDegradedIsRefusedUnlessItIsAllowed",
	api.CodeCageUnavailable:   "daemon/git/worktree/cage_test.go TestWithoutACageThereIsNoGit",
	api.CodeNSRestoreFailed:   "daemon/agent/codes_test.go TestASandboxThatCannotBeMadeAgainIsReported",
	api.CodeCgroupFailed:      "e2e/codes_test.go TestAddReportsWhichPartFailed",
	api.CodeViewFailed:        "e2e/codes_test.go TestAddReportsWhichPartFailed",
	api.CodeBridgeFailed:      "e2e/codes_test.go TestADaemonThatCannotMakeItsNetworkReportsIt",
	api.CodeEgressDenied:      "e2e/egress_test.go TestAllowedNamesOpenTheirAddresses",
	api.CodeNetworkBlocked:    "e2e/netforward_test.go TestABlockedNetworkIsNamed",
	api.CodeSyscallDenied:     "e2e/calls_test.go TestDeniedSyscallsEmitEvents",
	api.CodePortInUse:         "e2e/codes_test.go TestCodesThatAreReportedAfterwards",
	api.CodeNoPorts:           "e2e/network_test.go TestATakenPortIsSkipped",
	api.CodePortNotFound:      "e2e/network_test.go TestEveryAgentServesOnPort3000",
	api.CodeOOMKilled:         "e2e/agents_test.go TestMemoryLimitKillsAndIsReported",
	api.CodePidsLimit:         "e2e/agents_test.go TestProcessLimitHolds",
	api.CodeHostOvercommitted: "e2e/admission_test.go TestAnAgentThatTheMachineHasNoRoomForIsRefused",
	api.CodeLimitBelowUse:     "e2e/set_test.go TestAMemoryLimitBelowUseIsRefused",
	api.CodeReapFailed:        "daemon/agent/codes_test.go TestProcessesThatCannotBeKilledAreReported",
	api.CodeOrphanProcs:       "daemon/agent/codes_test.go TestWhatEndsBadlyAtStartHasItsCode",
	api.CodeShimUnavailable:   "daemon/http/client/session_test.go TestExecWithoutShim",
	api.CodeCommandNotFound:   "e2e/codes_test.go TestCodesThatAreReportedAfterwards",

	api.CodePathTraversal:    "fusefs/view/guard_test.go TestEveryOperationAgainstEveryRule",
	api.CodeUndeclaredRead:   "fusefs/view/guard_test.go TestEveryOperationAgainstEveryRule",
	api.CodeUndeclaredWrite:  "e2e/policy_test.go TestPolicyIsEnforcedAtTheCall",
	api.CodeHidden:           "fusefs/view/guard_test.go TestWhatIsHiddenIsNotReported",
	api.CodeNotApproved:      "fusefs/view/guard_test.go TestAsk",
	api.CodeAlreadyAnswered:  "daemon/rules/approval/queue_test.go TestTheFirstAnswerCounts",
	api.CodeFileLocked:       "e2e/locks_test.go TestProgramsMeetLocks",
	api.CodeNotLocked:        "e2e/locks_test.go TestExplicitLocks",
	api.CodeQuota:            "fusefs/gitdir/packs_test.go TestQuotaOfObjects",
	api.CodeLockdUnavailable: "fusefs/view/guard_test.go TestLeaseRefusals",
	api.CodeStaleLock:        "e2e/codes_test.go TestCodesThatAreReportedAfterwards",
	api.CodeLockBroken:       "e2e/codes_test.go TestCodesThatAreReportedAfterwards",
	api.CodeLockCorrupt:      "e2e/codes_test.go TestCodesThatAreReportedAfterwards",

	api.CodeProjectChanged:    "e2e/exchange_test.go TestAProjectMovesByAPersonsWord",
	api.CodeStateCorrupt:      "e2e/state_test.go TestACorruptStateIsRenamedAndRebuilt",
	api.CodeSnapshotCorrupt:   "e2e/snapshot_test.go TestADamagedSnapshotIsFoundAndNeverRestored",
	api.CodeReceiptsBroken:    "e2e/receipts_test.go TestReceiptsOfAnAgentsLife",
	api.CodeSnapshotDiffers:   "e2e/snapshot_test.go TestAFileChangedBehindTheViewIsNoticed",
	api.CodeAuditFull:         "e2e/receipts_test.go TestAFullDiskOfReceipts",
	api.CodeStateNotSaved:     "e2e/state_test.go TestAFullDiskRefusesChangesAndLosesNothing",
	api.CodeWorktreeMissing:   "daemon/git/worktree/worktree_test.go TestUncommittedNamesEveryFile",
	api.CodeWorktreeCorrupt:   "daemon/agent/codes_test.go TestWhatEndsBadlyAtStartHasItsCode",
	api.CodeReconcileConflict: "daemon/agent/codes_test.go TestWhatEndsBadlyAtStartHasItsCode",

	api.CodeBadRequest:    "daemon/http/server/server_test.go TestBadBodiesAreRefusedByEveryRouteThatReadsOne",
	api.CodeInvalidConfig: "daemon/config/config_test.go TestParseRefusesWhatItDoesNotUnderstand",
	api.CodeForbidden:     "daemon/http/server/server_test.go TestEveryRouteRefusesAnUnknownCaller",
	api.CodeNotFound:      "daemon/http/server/server_test.go TestBadBodiesAreRefusedByEveryRouteThatReadsOne",
	api.CodeTooLarge:      "daemon/http/server/server_test.go TestABodyThatIsTooLargeIsRefused",
	api.CodeTimeout:       "daemon/http/client/client_test.go TestContextsEndCalls",
	api.CodeUnavailable:   "e2e/restart_test.go TestASecondDaemonIsRefused",
	api.CodeInternal:      "daemon/http/client/client_test.go TestAnswersThatAreNotPolisd",
}

// TestEveryCodeIsProvoked fails for a code of the reference without such a test, and for a named
// test that does not exist or does not mention the code.
func TestEveryCodeIsProvoked(t *testing.T) {
	known := map[api.Code]bool{}
	names := constants(t)
	for _, c := range api.Codes() {
		known[c.Code] = true
		where := provoked[c.Code]
		if where == "" {
			t.Errorf("%s: no test provokes it", c.Code)
			continue
		}
		file, function, _ := strings.Cut(where, " ")
		if text := words(t, file, function); !text[names[c.Code]] && !text[string(c.Code)] {
			t.Errorf("%s: %s does not speak of it", c.Code, where)
		}
	}
	for c := range provoked {
		require.True(t, known[c], "%s is not in the reference", c)
	}
}

// constants are the names of the codes' Go constants.
func constants(t *testing.T) map[api.Code]string {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), "daemon/api/errors.go"), nil, 0)
	require.NoError(t, err)
	out := map[api.Code]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, "Code") {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			out[api.Code(text)] = v.Names[0].Name
		}
		return true
	})
	return out
}

// words are the identifiers of a function, and the words in its texts.
func words(t *testing.T, name, function string) map[string]bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), name), nil, 0)
	require.NoError(t, err)
	out := map[string]bool{}
	found := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		found = true
		ast.Inspect(f, func(n ast.Node) bool {
			switch v := n.(type) {
			case *ast.Ident:
				out[v.Name] = true
			case *ast.BasicLit:
				for _, w := range strings.FieldsFunc(v.Value, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
					out[w] = true
				}
			}
			return true
		})
	}
	require.True(t, found, "there is no %s in %s", function, name)
	return out
}

// TestEveryEventIsDocumented in docs/api.md.
func TestEveryEventIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/api.md"))
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), "daemon/api/events.go"), nil, 0)
	require.NoError(t, err)
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		v, ok := node.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Event") {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		require.Contains(t, string(page), "`"+text+"`", "docs/api.md has the types of events")
		n++
		return true
	})
	require.Greater(t, n, 15)
}
