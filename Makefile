# Everything a newcomer needs is `make run` and `make test`; both do their own
# set-up. What is downloaded is kept outside the repository.
GO ?= go
BIN := bin/copilot-bridge
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/copilot-bridge/copilot-bridge/internal/cli.version=$(VERSION)
LINT := $(GO) tool -modfile=tools/lint.mod golangci-lint
PACKAGES := ./...

.PHONY: run demo test race test-sandbox test-fleet oracle soak test-long test-openclaw test-vscode test-browser vsix lint bench build release test-release release-check cross fuzz generate probe capabilities clean

## run: build, set up, and serve OpenAI's and Anthropic's APIs on this machine
run: build
	@mkdir -p build/workspace
	$(BIN) serve --workspace build/workspace $(ARGS)

## demo: let the real runtime create a file under the built-in model
demo: build
	@rm -rf build/demo && mkdir -p build/demo
	$(BIN) run --demo --cwd build/demo "create hello.txt saying hi"
	@printf '\nbuild/demo/hello.txt says: ' && cat build/demo/hello.txt && echo

## build: the binary, as bin/copilot-bridge
build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/copilot-bridge

## test: all tests that need only Go, Node and git; installs the pinned runtime. RACE=1 adds the race detector
# Four tests of a package run at a time: most of them wait for processes and disks.
# With RACE=1, what one goroutine does alone runs without the race detector, which
# finds nothing there and takes ten times as long: PLAIN packages, PLAIN_TESTS of
# others, and the tests below test/, which run the program as it is built for
# users. The load tests run with it, but for those that measure memory.
TESTED = $(GO) test -count=1 -parallel 4 -timeout 30m
PLAIN = /capabilities$$|/guard/redact$$|/guard/shell$$|/openclaw/json5$$
PLAIN_TESTS = ^Test(LayersOnlyTighten|OrderOfLayersDoesNotMatter|Idempotent|HostileYAMLIsQuick|ScannerFindsTheSame|LongList|Tail|Tampering|LargeSearch|RefusalReachesASender|ManyStreams|UnreadAnswers)$$
PLAIN_TESTS_IN = $(addprefix ./internal/,guard/policy guard/audit workspace/search sessionstore httpserver) ./test/load
test:
	$(GO) vet $(PACKAGES)
ifdef RACE
	$(TESTED) -race -skip '$(PLAIN_TESTS)' $$($(GO) list $(PACKAGES) | grep -vE '/test/|$(PLAIN)') ./test/load
	$(TESTED) -race -run TestConcurrentUse ./internal/guard/redact
	$(TESTED) -run '$(PLAIN_TESTS)' $(PLAIN_TESTS_IN)
	$(TESTED) $$($(GO) list $(PACKAGES) | grep -E '/test/|$(PLAIN)' | grep -v /test/load)
else
	$(TESTED) $(PACKAGES)
endif

## race: make test with the race detector, which needs a C compiler
race:
	$(MAKE) test RACE=1

## test-sandbox: programs inside bubblewrap, and a sample of generated commands under strace; installs what it needs where apt may
test-sandbox: sandbox-tools
	$(GO) test -count=1 -timeout 30m ./internal/guard/sandbox
	$(GO) test -count=1 -timeout 30m -run 'Wall|Grant' ./internal/agent/sdk
	COPILOT_BRIDGE_TEST_SANDBOX=1 $(GO) test -count=1 -timeout 30m -v -run 'Sandbox|Withholds|Everyday' ./test/e2e
	COPILOT_BRIDGE_TEST_SANDBOX=1 $(GO) test -count=1 -timeout 30m -run Forced ./test/attempts
	COPILOT_BRIDGE_TEST_ORACLE=1500 $(GO) test -count=1 -v -timeout 30m ./test/oracle

## oracle: run what the guard allows of 50,000 generated commands, and find what it did not foresee
SEED ?= 1
CASES ?= 50000
oracle: sandbox-tools
	COPILOT_BRIDGE_TEST_ORACLE=$(CASES) COPILOT_BRIDGE_TEST_ORACLE_SEED=$(SEED) $(GO) test -count=1 -v -timeout 60m -run Escapes ./test/oracle

# The programs that those tests run, each with the package that has it.
.PHONY: sandbox-tools
sandbox-tools:
	@for p in bwrap:bubblewrap slirp4netns:slirp4netns iptables:iptables curl:curl strace:strace gcc:gcc make:make python3:python3-venv cargo:cargo; do \
	  command -v $${p%%:*} >/dev/null || apt-get install -y -q $${p##*:} || { apt-get update -q && apt-get install -y -q $${p##*:}; } || sudo -n apt-get install -y -q $${p##*:} || exit 1; \
	done

## test-fleet: a fleet on five hosts (network namespaces) that are killed, frozen and cut off, 200 tasks (TASKS); SEED repeats the choices; needs root
TASKS ?= 200
test-fleet:
	COPILOT_BRIDGE_TEST_FLEET=1 COPILOT_BRIDGE_TEST_FLEET_TASKS=$(TASKS) SEED=$(if $(filter command line environment,$(origin SEED)),$(SEED)) $(GO) test -count=1 -v -timeout 60m ./test/fleet

## soak: everything at once for SOAK (default 20m) with random faults; SEED repeats a run's choices
SOAK ?= 20m
soak:
	SOAK=$(SOAK) SEED=$(if $(filter command line environment,$(origin SEED)),$(SEED)) $(GO) test -count=1 -v -timeout 0 ./test/soak

## test-long: the tests that kill, move and load at random, at their whole size (20 minutes)
test-long:
	COPILOT_BRIDGE_TEST_LONG=1 PATCH_TEST_KILLS=200 $(GO) test -count=1 -v -timeout 0 -run 'Kill|Discard' ./internal/orchestrate ./internal/workspace/patch ./internal/sessionstore ./internal/durable
	COPILOT_BRIDGE_TEST_LONG=1 $(GO) test -count=1 -v -timeout 0 ./test/load
	COPILOT_BRIDGE_TEST_LONG=1 $(GO) test -count=1 -timeout 0 ./test/attempts ./internal/workspace/search

## test-openclaw: the tests with the real OpenClaw; installs it, pinned (most of a gigabyte)
test-openclaw:
	COPILOT_BRIDGE_TEST_OPENCLAW=1 $(GO) test -count=1 -timeout 60m ./test/openclaw/...

## lint: golangci-lint, built from the pinned module
lint:
	$(LINT) run $(PACKAGES)

## bench: ratios to the bare SDK, measured in one run
bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench
	$(GO) test -run '^$$' -bench WorstPrefix -benchtime 1x -v ./internal/guard/redact

## fuzz: each fuzz target for FUZZTIME (default 30s)
FUZZTIME ?= 30s
fuzz:
	@for p in $$($(GO) list $(PACKAGES)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; \
	done

## generate: the inventory of what Copilot offers, its document, the README's table, and the table of the SDK's calls
generate:
	$(GO) test -count=1 -run TestInventoryIsCurrent ./tools/capabilities -update
	$(GO) test -count=1 -run TestCallsAreCurrent ./internal/agent/sdk -update

## probe: try the runtime out again and put on record what it does
probe:
	$(GO) test -count=1 -run TestProbes ./tools/capabilities -record

## capabilities: does the inventory fit the pinned runtime, the SDK and the document
capabilities: build
	$(BIN) capabilities --check

## release: archives, packages, SBOMs, an image and a Homebrew formula, into build/release; a snapshot unless HEAD has a tag
GORELEASER = $(GO) tool -modfile=tools/release.mod goreleaser
TAG = $(shell git describe --tags --abbrev=0 2>/dev/null || echo v0.0.0)
release:
	GORELEASER_CURRENT_TAG=$(TAG) $(GORELEASER) release --clean --skip=publish $(if $(shell git describe --tags --exact-match 2>/dev/null),,--snapshot) $(RELEASE_FLAGS)
	CGO_ENABLED=0 $(GO) run -trimpath ./tools/release finish build/release

## test-release: HEAD's release for Linux, made twice, with its packages installed and removed; installs the tools that it needs where apt may
test-release: release-tools
	COPILOT_BRIDGE_TEST_RELEASE=linux $(GO) test -count=1 -v -timeout 30m ./test/release

## release-check: test-release with all platforms (half an hour)
release-check: release-tools
	COPILOT_BRIDGE_TEST_RELEASE=all $(GO) test -count=1 -v -timeout 0 ./test/release

.PHONY: release-tools
release-tools:
	@for p in rpm zsh fish tmux; do \
	  command -v $$p >/dev/null || apt-get install -y -q $$p || { apt-get update -q && apt-get install -y -q $$p; } || sudo -n apt-get install -y -q $$p || exit 1; \
	done

## cross: builds for the platforms that cannot be run here
cross:
	GOOS=darwin GOARCH=arm64 $(GO) vet $(PACKAGES)
	GOOS=windows GOARCH=amd64 $(GO) vet $(PACKAGES)
	GOOS=darwin GOARCH=arm64 $(GO) build -o build/cross/darwin-arm64/copilot-bridge ./cmd/copilot-bridge
	GOOS=windows GOARCH=amd64 $(GO) build -o build/cross/windows-amd64/copilot-bridge.exe ./cmd/copilot-bridge

## vsix: the VS Code extension for each platform (or TARGETS="linux-x64 …"), into build/vsix
vsix:
	cd extensions/vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && \
	  BRIDGE_VERSION='$(VERSION)' node package.mjs $(TARGETS)

## test-vscode: the extension in a real VS Code with a real browser; installs both (minutes, once)
test-vscode:
	COPILOT_BRIDGE_TEST_VSCODE=1 $(GO) test -count=1 -timeout 60m ./test/vscode

## test-browser: the dashboard of serve in Chromium; installs Debian's package where apt may
test-browser:
	@command -v chromium >/dev/null || apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; } || sudo -n apt-get install -y -q chromium
	COPILOT_BRIDGE_TEST_BROWSER=1 $(GO) test -count=1 -timeout 10m ./test/browser

clean:
	rm -rf bin build
