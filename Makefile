# make run and make test do all the set-up themselves: they need Go, git and make.
GO      ?= go
BIN     := bin/assay
OUT     ?= assay-results
FUZZ    ?= 50000x
KILLS   ?= 300
AGENTS  ?= bin/agents
TOOL    := $(GO) tool -modfile=tools/go.mod

.PHONY: run build test check lint-workflows e2e e2e-agents fuzz crash bench clean

run: build ## run evals/ with its scripted agents and write the pages
	$(BIN) run evals --out $(OUT)

build: $(BIN)

# Go decides itself what has to be built again.
.PHONY: $(BIN)
$(BIN):
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/assay

test: ## all tests, with the race detector where there is a C compiler for it
	$(GO) test $(shell ./tools/race.sh) $(ARGS) ./...

check: ## everything that reads the code without running it
	@test -z "$$(gofmt -l cmd internal tools)" || { gofmt -l cmd internal tools; echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./cmd/... ./internal/...
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/assay
	$(TOOL) staticcheck ./...
	$(TOOL) actionlint .github/workflows/*.yml

lint-workflows: ## actionlint, action-validator and zizmor over action.yml, our workflows and the documented ones
	./tools/lint-workflows.sh

e2e: ## the action in its container, run by act; needs docker, see tools/docker.sh
	$(GO) -C e2e test $(ARGS) -count=1 -timeout 30m ./...

e2e-agents: ## real agents, installed by npm, with scripted models and no network but loopback
	./tools/agents.sh $(AGENTS)
	ASSAY_AGENTS=$(abspath $(AGENTS)) ASSAY_MODELSERVER=$(CURDIR)/tools/modelserver.py unshare -n sh -c 'ip link set lo up && \
		$(GO) test ./internal/harness ./internal/gateway -count=1 -timeout 30m -run "Real|Oneshot|ModelServer|Independent" -v && \
		$(GO) test ./internal/cli -count=1 -timeout 30m -run "TestScripts/agents|TestCanaryOfRealAgents" -v'

fuzz: ## every fuzz target, $(FUZZ) executions each
	./tools/fuzz.sh $(FUZZ)

crash: ## kill assay $(KILLS) times in each of three ways, and look for what was lost
	$(GO) test ./internal/cli -run TestKillNine -v -timeout 1h -kills=$(KILLS)

bench: build ## speed, as ratios against a bare loop and a peer, and of diff scope against git
	$(GO) -C tools build -trimpath -o ../bin/bench ./bench
	$(GO) test -c -o bin/diffscope.test ./internal/diffscope
	bin/bench diff
	bin/bench compare

clean:
	rm -rf bin $(OUT)
