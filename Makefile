# make run and make test do all the set-up themselves: they need Go, git and make.
GO      ?= go
BIN     := bin/assay
OUT     ?= assay-results
FUZZ    ?= 50000x
KILLS   ?= 300
SUITES  ?= 2000
AGENTS  ?= bin/agents
PHOENIX ?= bin/phoenix
JUNIT   ?= bin/junitparser
WHICH   ?= claude codex gemini opencode claude-acp codex-acp
CASES   ?= *
ROOMS   ?= gateway harness cli
HARBOR  ?= bin/harbor
IMAGE   ?= assay-evals:latest
TOOL    := $(GO) tool -modfile=tools/go.mod

.PHONY: run build test check lint-workflows e2e e2e-otlp junit e2e-agents e2e-harbor fuzz crash simulate bench clean

run: build ## run evals/ with its scripted agents and write the pages
	$(BIN) run evals --out $(OUT)

build: $(BIN)

# Go decides itself what has to be built again. Places in containers need a program without libraries.
.PHONY: $(BIN)
$(BIN):
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/assay

test: ## all tests, with the race detector where there is a C compiler for it
	$(GO) test $(shell ./tools/race.sh) -timeout 30m $(ARGS) ./...

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

# What the tests need of the network is fetched before they have none.
e2e-otlp: ## push to Arize Phoenix on loopback and read back; needs root, installs 855 MB into $(PHOENIX)
	test -x $(PHOENIX)/bin/phoenix || { python3 -m venv $(PHOENIX) && $(PHOENIX)/bin/pip install -q arize-phoenix==20.26.1; }
	$(GO) test -c -o $(PHOENIX)/cli.test ./internal/cli
	cd internal/cli && ASSAY_PHOENIX=$(abspath $(PHOENIX))/bin/python unshare -n sh -ec \
		'ip link set lo up; $(abspath $(PHOENIX))/cli.test -test.run TestExportToPhoenix -test.v -test.timeout 10m'

junit: ## read junit.xml with junitparser, installed into $(JUNIT)
	test -x $(JUNIT)/bin/python || { python3 -m venv $(JUNIT) && $(JUNIT)/bin/pip install -q junitparser==5.0.3; }
	ASSAY_JUNITPARSER=$(abspath $(JUNIT))/bin/python $(GO) test ./internal/report -run JUnit -count=1 -v

e2e-agents: ## real agents ($(WHICH)), installed by npm, with scripted models and no network but loopback
	./tools/agents.sh $(AGENTS) $(WHICH)
	mkdir -p $(AGENTS)/tests
	$(GO) build -o $(AGENTS)/tests/ ./cmd/assay
	$(GO) test -c -o $(AGENTS)/tests/ $(ROOMS:%=./internal/%)
	ASSAY_AGENTS=$(abspath $(AGENTS)) ASSAY_WHICH='$(WHICH)' ASSAY_CASES='$(CASES)' ASSAY_REQUIRE=agents \
	ASSAY_MODELSERVER=$(CURDIR)/tools/modelserver.py unshare -n sh -ec 'ip link set lo up; for room in $(ROOMS); do \
		cd $(CURDIR)/internal/$$room; $(abspath $(AGENTS))/tests/$$room.test -test.v -test.timeout 1h \
			-test.run "Real|Oneshot|ModelServer|Independent|TwoCellsOfClaude|TestOutcomes|TestScripts/agents"; done'

# IMAGE has what the cases need: bash, tar, setpriv, git, python3, node and go.
e2e-harbor: build ## executor harbor on its docker backend, and the demo cases through it; needs a docker daemon and IMAGE
	eval "$$(tools/harbor.sh $(HARBOR))"; export ASSAY_HARBOR DOCKER_CONFIG ASSAY_HARBOR_IMAGE=$(IMAGE); \
	$(GO) test ./internal/executor -run Harbor -count=1 -timeout 20m $(ARGS) && \
	PATH="$$(dirname "$$ASSAY_HARBOR"):$$PATH" $(BIN) run evals --executor harbor --image $(IMAGE) --case '$(CASES)' --out $(HARBOR)/results

fuzz: ## every fuzz target, $(FUZZ) executions each
	./tools/fuzz.sh $(FUZZ)

crash: ## kill assay $(KILLS) times in each of three ways, and look for what was lost
	$(GO) test ./internal/cli -run TestKillNine -v -timeout 1h -kills=$(KILLS)

simulate: ## $(SUITES) simulated suites of each kind through the verdict, into the tables of docs/verdicts.md
	$(GO) test ./internal/bench -run TestSimulation -suites=$(SUITES) -update -timeout 1h -v

bench: build ## speed, as ratios against a bare loop and a peer, of diff scope against git, of a large summary and its pages, of places, of containers, and of the redactor
	$(GO) -C tools build -trimpath -o ../bin/bench ./bench
	$(GO) test -c -o bin/diffscope.test ./internal/diffscope
	$(GO) test -c -o bin/verdicts.test ./internal/bench
	$(GO) test -c -o bin/report.test ./internal/report
	$(GO) test -c -o bin/places.test ./internal/sandbox
	$(GO) test -c -o bin/redact.test ./internal/redact
	CGO_ENABLED=0 $(GO) test -c -o bin/executor.test ./internal/executor
	bin/bench redact
	bin/bench diff
	bin/bench verdicts
	bin/bench reports -rounds 3
	bin/bench places
	bin/bench executors
	bin/bench compare
	$(GO) test ./internal/report -run TestLargeReportInABrowser -hurry -count=1 -v

clean:
	rm -rf bin $(OUT)
