# polis. "make help" lists the targets.
#
# polisd, polisctl and polis-tools are pure Go. polis-shim needs cgo: libcontainer enters
# namespaces in C before the Go runtime starts, and seccomp is libseccomp.

SHELL   := /bin/bash
GO      ?= go
# Where Go's own packages put it, for sudo and for CI.
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
DESTDIR ?=
PREFIX  ?= /usr
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
VERSION ?= $(shell scripts/version)

TAGS    := seccomp
LDFLAGS := -s -w -X main.version=$(VERSION)
BIN     := bin
PKGS    ?= ./...
# Packages at a time: a third of their time they wait.
PAR     ?= 3
# Tests with daemons of their own mostly wait: three of them at a time.
SIDES   ?= 3
FUZZTIME ?= 10s

# Tests of one machine: one part after the other.
.NOTPARALLEL:

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: ## install what building and the demonstration need (Debian packages; does nothing when they are there)
	@scripts/setup

.PHONY: setup-test
setup-test: ## the same for all tests: editors and other programs that meet locks, systemd
	@scripts/setup test

.PHONY: build
build: ## bin/polisd, bin/polisctl, bin/polis-tools with its names polis-tui and polis-adapter (pure Go), and bin/polis-shim (cgo)
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/polisd ./cmd/polisctl ./cmd/polis-tools
	for n in polis-tui polis-adapter; do ln -sfn polis-tools $(BIN)/$$n; done
	CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/polis-shim

.PHONY: test
test: setup-test build runner ## everything: the linter, unit and kernel tests with the race detector, the programs end to end, systemd; fails if anything is left behind
	@MAKE='$(MAKE)' scripts/parts lint packages overlay programs shared above systemd fresh-demo fresh-programs

# It runs a test that failed once more, alone. Built first, because "go run" would not wait for it after a signal.
.PHONY: runner
runner:
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $(BIN)/ ./e2e/gotest

# Every package but the two that drive the built programs. Those that take longest are the last
# ones of the list, and begin first.
UNITS = $$($(GO) list -tags '$(TAGS)' ./... | grep -v -e '/e2e$$' -e '/e2e/systemd$$' | tac)
GOTEST = $(BIN)/gotest -tags '$(TAGS)' -count=1
GOSIDES = $(BIN)/gotest -sides $(SIDES) -tags '$(TAGS)' -count=1

.PHONY: units packages overlay
units: packages overlay ## the packages' own tests with the race detector, against the real kernel
packages: runner
	scripts/ring scripts/leakcheck run $(GOTEST) -race -p $(PAR) -timeout 20m $(UNITS)
overlay: runner
	FUSEFS_OVERLAY=1 scripts/ring scripts/leakcheck run $(GOTEST) -timeout 5m -run '$(OVERLAID)' ./fusefs

# The suites of a view, on one over an overlayfs, as an agent has that shares a base tree.
OVERLAID = ^(TestAViewBehavesLikeAPlainDirectory|TestWhatProgramsExpect|TestPosix|TestPosixAsNobody|TestEveryMutationIsGated|TestEveryMixOfOpensSeesTheSameBytes|TestSharedNamesBehaveLikeACopy|TestManyWorkersAtOnce|TestSQLiteWorksInAView|TestGitWorksInAView|TestWritersAreFoundWhenAnObjectIsPublished)$$

.PHONY: e2e programs shared above systemd
e2e: programs shared above systemd ## the programs end to end, without and under systemd
programs: build runner
	POLIS_BIN=$(CURDIR)/$(BIN) scripts/leakcheck run $(GOSIDES) -timeout 10m ./e2e
shared above: build runner
	POLIS_E2E_WORKTREE=$@ POLIS_BIN=$(CURDIR)/$(BIN) scripts/leakcheck run $(GOSIDES) -timeout 10m -run '$(LAYERED)' ./e2e
systemd: build runner
	POLIS_BIN=$(CURDIR)/$(BIN) scripts/leakcheck run $(GOTEST) -timeout 15m ./e2e/systemd

# What agents are promised, again with worktrees that share a base tree, in both orders of the view and
# the overlay. POLIS_E2E_WORKTREE=shared go test ./e2e, or above, does so with any test.
LAYERED = ^(TestTwoAgentsWorkApart|TestIgnoredPathsTakeNoLease|TestOwnIgnoreRulesDoNotEvadeLeases|TestExplicitLocks|TestAgentsLockByName|TestEverydayGit|TestGitPlumbingDoesNotGetAroundTheRules|TestTenAgentsCommitTenTimes|TestAgentsCommitWhileOthersMergeAndPack|TestGitLocksEndWithTheirFiles|TestRemoveKeepsUnsavedWork|TestAFileLimitRefusesNewFiles|TestAFullDiskRefusesChangesAndLosesNothing|TestAgentsOutliveTheDaemon|TestKilledGitHarmsNoAgent|TestAnIdleShimGivesTheMemoryOfAWalkBack|TestRulesOfALivingAgentCountAtOnce|TestIgnoredFilesOfTheProjectShowInEveryAgent|TestWatchersInAnAgentSeeARewind|TestWatchersInAnAgentSeeTheOwnersChangeOfASharedFile|TestAViewThatDiesEndsItsAgent|TestHintsAboutSnapshots|TestASnapshotIsOfOneMoment|TestADamagedSnapshotIsFoundAndNeverRestored|TestARestoredAgentHasItsSubmodules|TestSubmodulesAreThereWithoutANetwork|TestLFSObjectsAreSavedAndForked|TestGuideOnADevelopersMachine|TestADevelopersGitReachesAgents|TestADevelopersCheckoutAfterMerges|TestADevelopersMachineIsNamed|TestAnApprovedChangeIsAChange|TestAnApprovedChangeIsSaved|TestAnApprovedChangeIsNotReadAgainInTheNextTask|TestTasksFromTheListOfCommands|TestAFileThatIsWrittenAsideIsOneQuestion|TestWorkInASubmoduleIsWork|TestASubmodulesCommitMustBeWhereTheProjectGetsIt|TestLFSObjectsComeHomeWithAMerge|TestToolsKeepRefsOfTheirOwn|TestGitsOwnMaintenanceEndsWhole|TestFilesWithSeveralNames|TestAViewThatIsUnmountedOnTheHostIsMountedAgain|TestRefsOfTheProjectReachAgents|TestABranchThatIsNotTheProjectsIsRefused|TestCommitsHaveTheIdentityOfTheOwnersGit|TestGitHooksOfTheProjectRunForAgents|TestGitHooksThatDoNotRunAreReported|TestAProjectWithoutHooksForMergesIsMerged|TestAMergeIsSignedOnRequest|TestAgentsIgnoreWhatTheOwnersGitIgnores|TestWhatTheOwnerHasBegunIsLeftAlone|TestAnAgentHasTheOwnersSparseCheckout|TestASparseCheckoutFollowsTheTarget|TestASparseCheckoutIsForkedAndRestored|TestASparseCheckoutIsRewound|TestABareRepositoryWithWorktreesIsNotClonedSilently|TestACloneOfABareRepositoryIsReported|TestABranchOfTheAgentsOwnIsMerged|TestAnAgentStartsAgainWhateverItHasCheckedOut|TestAnAgentMakesWorktreesOfItsOwn|TestAPushIntoTheAgentsRepository|TestWatchersInAnAgentSeeTheirBranchBroughtForward|TestABranchGoesBack|TestAMergedBranchStays|TestRulesMeanWhatTheySpell|TestNamesThatAreNotUTF8|TestLinksOutOfTheSandboxAreNamed|TestTheNextTaskBeginsAtOnce)$$

# Without @latest npm takes older programs where Node is older than the newest want.
AGENTS = @anthropic-ai/claude-code @openai/codex @google/gemini-cli @qwen-code/qwen-code opencode-ai @github/copilot @mariozechner/pi-coding-agent cline
NODE22 = $$(node -e 'parseInt(process.versions.node) < 22 && console.log("node-" + process.platform + "-" + process.arch + "@22")')

.PHONY: e2e-agents
e2e-agents: build ## real agents from npm against a stand-in for their model services; writes docs/agents.md
	dir=$$(mktemp -d /tmp/polis-agents-XXXXXX) && trap 'rm -rf "$$dir"' EXIT && chmod 755 "$$dir" && \
	npm install --prefix "$$dir" --no-audit --no-fund $(AGENTS:%=%@latest) $(NODE22) && chmod -R a+rX "$$dir" && \
	POLIS_AGENTS=$$dir POLIS_AGENTS_DOC=$(CURDIR)/docs/agents.md POLIS_BIN=$(CURDIR)/$(BIN) \
	  $(GO) test -tags '$(TAGS) agents' -count=1 -timeout 40m -v -run '^TestReal(Agents|AgentsThroughTheGateway|Hooks|ACP|Said|Week)$$' ./e2e

.PHONY: test-fresh fresh-demo fresh-programs
test-fresh: fresh-demo fresh-programs ## the demonstration and some of e2e as on a machine where nothing of polis ever was
fresh-demo: build
	scripts/fresh scripts/leakcheck run scripts/demo
fresh-programs: build runner
	POLIS_BIN=$(CURDIR)/$(BIN) scripts/fresh scripts/leakcheck run $(GOTEST) -timeout 10m -run '$(FRESH)' ./e2e
FRESH = ^(TestTwoAgentsWorkApart|TestTwoDaemonsDoNotInterfere|TestEgressChangesAtOnce|TestScreenInATerminal)$$

.PHONY: check
check: ## the inner loop: formatting, vet, and each package's tests, without the race detector and only where something changed
	@test -z "$$(git ls-files '*.go' | xargs gofmt -l)" || { echo "check: run gofmt -w on:"; git ls-files '*.go' | xargs gofmt -l; exit 1; } >&2
	$(GO) vet -tags '$(TAGS)' ./...
	scripts/ring scripts/leakcheck run $(GO) test -tags '$(TAGS)' -vet=off -short -p $(PAR) -timeout 10m $(UNITS)

.PHONY: e2e-vm
e2e-vm: build ## the same under the current Debian's kernel and systemd with cgroup v2 alone, in an emulated machine (10 minutes)
	@scripts/setup vm
	POLIS_BOOT=$(CURDIR)/e2e/vm/boot POLIS_PATIENCE=5m POLIS_BIN=$(CURDIR)/$(BIN) CI=true \
	  scripts/leakcheck run $(GO) test -tags '$(TAGS)' -count=1 -timeout 60m -v ./e2e/systemd

.PHONY: docs
docs: ## man pages of polisctl, completion scripts and docs/errors.md, made again from the source
	$(GO) test -count=1 -run '^TestGeneratedFilesAreFresh$$' ./cmd/polisctl -update

.PHONY: pictures
pictures: build ## docs/pictures/*.svg: the diagrams from their text, the screens from runs of them (as root)
	$(GO) test -count=1 -run '^TestPicturesAreFresh$$' ./internal/picture -update
	$(GO) test -count=1 -run '^TestPicture$$' ./cmd/polis-tui/tui -update
	POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -count=1 -run '^TestDemonstration$$' ./e2e -update

.PHONY: demo
demo: setup build ## the demonstration: two agents on one repository, step by step
	@scripts/demo

.PHONY: lint
lint: ## gofmt, vet, forbidden calls, staticcheck
	@scripts/lint

.PHONY: bench
bench: build ## files against native, bindfs and go-fuse's loopback (BENCH_ROUNDS, BENCH_ONLY, BENCH_QUICK=1, ARGS=--goals), then what agents cost
	@scripts/setup bench
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/ ./e2e/bench ./e2e/bench/nullfs github.com/hanwen/go-fuse/v2/example/loopback
	$(BIN)/bench --bin $(BIN) $(ARGS)
	@test -n "$(BENCH_ONLY)$(BENCH_QUICK)" || POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -run '^$$' -bench . -benchtime 1x -count=1 -timeout 30m ./e2e
	@test -n "$(BENCH_ONLY)$(BENCH_QUICK)" || $(GO) test -run '^$$' -bench PortMap -benchtime 1x -count=1 ./netbridge

.PHONY: bench-patrol
bench-patrol: build ## what the patrol of 100 agents costs, how soon dead shims are noticed and breakers freeze (POLIS_AGENTS, POLIS_SPAN)
	POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -run '^$$' -bench 'Patrol$$' -benchtime 1x -count=1 -timeout 30m ./e2e

.PHONY: bench-gateway
bench-gateway: build ## what the model gateway costs: the first token, 50 streams, and the counts of 10,000 requests (as root)
	POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -run '^$$' -bench '^BenchmarkGateway$$' -benchtime 1x -count=1 -timeout 15m ./e2e

.PHONY: bench-timeline
bench-timeline: build ## what the audit adds to a build, first writes after a checkpoint, snapshots beside git add, checkpoints in large trees (as root; BENCH=Audit, Snapshot or Checkpoints for one of them)
	POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -run '^$$' -bench '^Benchmark$(or $(BENCH),(Audit|Snapshot|Checkpoints))$$' -benchtime 1x -count=1 -timeout 15m ./e2e

.PHONY: bench-approvals
bench-approvals: build ## what questions cost: answers, lists, rules, and operations beside a thousand that wait (as root)
	POLIS_BIN=$(CURDIR)/$(BIN) $(GO) test -tags '$(TAGS)' -run '^$$' -bench '^BenchmarkApprovals$$' -benchtime 1x -count=1 -timeout 15m ./e2e
	$(GO) test -run '^$$' -bench '^BenchmarkAskRules$$' -benchtime 100x -count=1 -timeout 10m ./fusefs/view
	$(GO) test -run '^$$' -bench '^BenchmarkOperationsBesideACrowd$$' -benchtime 10x -count=1 -timeout 10m ./fusefs

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for p in $$($(GO) list -tags '$(TAGS)' $(PKGS)); do \
	  for f in $$($(GO) test -tags '$(TAGS)' -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -tags '$(TAGS)' -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p; done; done


.PHONY: fuzz-content
fuzz-content: build ## hostile contents of repositories against every verb, for FUZZTIME
	POLIS_CONTENT_FUZZ=$(FUZZTIME) POLIS_BIN=$(CURDIR)/$(BIN) scripts/leakcheck run $(GO) test -tags '$(TAGS)' -count=1 -timeout 0 -v -run '^TestHostileContent$$' ./e2e

# Install needs no root with DESTDIR. Nothing is enabled or started here.
.PHONY: install
install: ## programs, units, configuration and man pages below DESTDIR (build first)
	@for b in polisd polisctl polis-tools polis-shim; do test -x $(BIN)/$$b || { echo "$(BIN)/$$b is missing: run make build first" >&2; exit 1; }; done
	install -D -m 755 $(BIN)/polisd     $(DESTDIR)$(PREFIX)/sbin/polisd
	install -D -m 755 $(BIN)/polisctl   $(DESTDIR)$(PREFIX)/bin/polisctl
	install -D -m 755 $(BIN)/polis-shim $(DESTDIR)$(PREFIX)/lib/polis/polis-shim
	install -m 755 $(BIN)/polis-tools $(DESTDIR)$(PREFIX)/lib/polis/polis-tools
	for n in polis-tui polis-adapter; do ln -sfn polis-tools $(DESTDIR)$(PREFIX)/lib/polis/$$n; done
	install -m 755 units/stop-agents $(DESTDIR)$(PREFIX)/lib/polis/stop-agents
	install -d $(DESTDIR)$(UNITDIR)
	install -m 644 units/*.service units/*.socket units/*.slice $(DESTDIR)$(UNITDIR)/
	install -D -m 644 units/polis.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/polis.conf
	install -D -m 644 units/polis.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/polis.conf
	install -D -m 644 units/10-polis.network $(DESTDIR)$(PREFIX)/lib/systemd/network/10-polis.network
	install -D -m 644 units/10-polis-networkmanager.conf $(DESTDIR)$(PREFIX)/lib/NetworkManager/conf.d/10-polis.conf
	install -d $(DESTDIR)$(SYSCONFDIR)/polis/agents.d
	test -e $(DESTDIR)$(SYSCONFDIR)/polis/polisd.toml || install -m 644 units/polisd.toml $(DESTDIR)$(SYSCONFDIR)/polis/polisd.toml
	for m in docs/man/*.[1-8]; do test -e $$m || continue; install -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/}; done
	install -d $(DESTDIR)$(PREFIX)/share/polis
	install -m 644 docs/*.schema.json $(DESTDIR)$(PREFIX)/share/polis/
	test ! -e packaging/completion/polisctl.bash || install -D -m 644 packaging/completion/polisctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/polisctl
	test ! -e packaging/completion/_polisctl || install -D -m 644 packaging/completion/_polisctl $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_polisctl
	test ! -e packaging/completion/polisctl.fish || install -D -m 644 packaging/completion/polisctl.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/polisctl.fish
	@test -n "$(DESTDIR)" || scripts/post-install

.PHONY: uninstall
uninstall: ## take away what install put there; configuration and workspaces stay
	@test -n "$(DESTDIR)" || scripts/pre-uninstall
	rm -f $(DESTDIR)$(PREFIX)/sbin/polisd $(DESTDIR)$(PREFIX)/bin/polisctl
	rm -rf $(DESTDIR)$(PREFIX)/lib/polis
	cd units && rm -f $$(printf '$(DESTDIR)$(UNITDIR)/%s ' *.service *.socket *.slice)
	rm -rf $(DESTDIR)$(PREFIX)/share/polis
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/polis.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/polis.conf
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/network/10-polis.network $(DESTDIR)$(PREFIX)/lib/NetworkManager/conf.d/10-polis.conf
	for m in docs/man/*.[1-8]; do rm -f $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/}; done
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/polisctl $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_polisctl $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/polisctl.fish

ARCH ?= $(shell $(GO) env GOARCH)
# A program for another architecture needs a C compiler and libseccomp for it.
CROSS_arm64 = CC=aarch64-linux-gnu-gcc PKG_CONFIG_LIBDIR=$(CURDIR)/$(BIN)/sysroot-arm64/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(CURDIR)/$(BIN)/sysroot-arm64

.PHONY: package
package: build ## dist/*.deb and dist/*.rpm for this architecture (docs/release.md)
	@scripts/setup package
	scripts/packages $(ARCH) $(BIN)

.PHONY: package-arm64
package-arm64: ## the same for arm64, with a cross compiler
	@scripts/setup package-arm64
	scripts/sysroot arm64 $(BIN)/sysroot-arm64
	$(MAKE) build BIN=$(BIN)/arm64 GO='env GOARCH=arm64 $(CROSS_arm64) $(GO)'
	scripts/packages arm64 $(BIN)/arm64

.PHONY: package-all
package-all: package package-arm64 ## packages for amd64 and arm64

.PHONY: package-test
package-test: package ## the packages on bare Debian 12 and 13 trees, the rpm with rpmlint and in a tree of its own (10 minutes)
	@scripts/setup package-test
	scripts/leakcheck run scripts/package-test

.PHONY: arm64-test
arm64-test: package-arm64 build ## the arm64 programs on an emulated processor: unit tests, and polisctl with this machine's polisd
	@scripts/setup arm64-test
	scripts/leakcheck run scripts/arm64-test $(BIN)/arm64

.PHONY: release
release: ## dist/VERSION: packages for amd64 and arm64, sources, SBOMs and SHA256SUMS of a tagged commit (docs/release.md)
	@scripts/release

.PHONY: vulncheck
vulncheck: ## known vulnerabilities of what the programs call (needs the Go vulnerability database)
	@scripts/vulncheck

.PHONY: clean
clean: ## take away what was built
	rm -rf $(BIN) dist
