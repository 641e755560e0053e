# pgqueue: `make help` lists the targets. On a machine with Go and apt nothing else has to be installed first.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CURDIR)/.bin/golangci-lint-$(GOLANGCI_VERSION)

# The modules beside the core; each replaces it by path.
MODULES := integration examples examples/databasesql bench pgqueuetest/pgcontainer console/assets console/browsertest
# Those whose tests need nothing but a Postgres; pgcontainer's need a container engine, see test-containers.
TESTED := integration examples examples/databasesql bench

# -p 2: packages that start their own Postgres share the machine better two at a time.
# -count=1: the version of the server is no part of the cache's key.
# The race detector is on; make ci, which has had it on in make test, does without it on the other versions of Postgres.
RACE ?= -race
GOTEST := go test $(RACE) -count=1 -p 2 -timeout 14m

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-zA-Z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## run the demo: index the Go standard library with two processes, kill one, prove that nothing was lost
	@cd examples && go run ./indexer

demo-serve: setup ## start the demo's database again, for psql
	@cd examples && go run ./indexer serve

demo-clean: ## remove the demo's database
	@for file in $$(find .demo -name postmaster.pid 2>/dev/null); do \
	  if kill -0 "$$(head -n 1 $$file)" 2>/dev/null; then echo "the demo's database is running: stop it first"; exit 1; fi; \
	done
	@rm -rf .demo

demo-outbox: setup ## 5,000 notifications over an application's own tables, with one process killed
	@cd examples && go run ./outbox

demo-embeddings: setup ## a queue written by hand: vectors of documents that change all the time
	@cd examples && go run ./embeddings

test: setup-tests ## run all tests, with the race detector
	$(GOTEST) ./...
	@for module in $(TESTED); do echo "== $$module"; (cd $$module && $(GOTEST) ./...) || exit 1; done

test-full: setup-tests ## run all tests at the sizes of the failure cases (slow)
	PGQUEUE_TEST_FULL=1 go test -race -count=1 -p 2 -timeout 60m ./...
	@for module in $(TESTED); do echo "== $$module"; (cd $$module && PGQUEUE_TEST_FULL=1 go test -race -count=1 -p 2 -timeout 60m ./...) || exit 1; done

test-oldest: ## run all tests on the oldest supported Postgres
	@scripts/setup-postgres.sh --version 14
	PGQUEUE_POSTGRES_VERSION=14 $(MAKE) --no-print-directory test

test-newest: ## run all tests on the newest supported Postgres
	@scripts/setup-postgres.sh --version 18
	PGQUEUE_POSTGRES_VERSION=18 $(MAKE) --no-print-directory test

test-matrix: ## run the core and integration suites on Postgres 14 to 18 and compare what passed (VERSIONS="14 15")
	@scripts/test-matrix.sh $(VERSIONS)

test-containers: ## run the integration suite against a Postgres in a container (SETUP=1 installs an engine if none answers)
	@scripts/test-containers.sh

test-poolers: ## run the core and integration suites through PgBouncer 1.18 and 1.24 and compare what passed
	@scripts/test-poolers.sh

test-poolers-quick: ## the tests of poolers and a part of the core suite through Debian's PgBouncer
	@scripts/test-poolers.sh quick

test-citus: ## run the core path on the Citus cluster that PGQUEUE_CITUS_URL names (docs/scaling.md)
	@test -n "$${PGQUEUE_CITUS_URL:-}" || { echo 'PGQUEUE_CITUS_URL is not set: it names a database on the coordinator of a Citus cluster'; exit 1; }
	cd integration && go vet -tags citus ./citus && go test -race -count=1 -timeout 14m -tags citus -v ./citus

fuzz: setup-tests ## fuzz the payload validation against Postgres (FUZZTIME=1m)
	go test ./pgqueue -run '^$$' -fuzz FuzzPayload -fuzztime $${FUZZTIME:-1m}

lint: $(GOLANGCI) ## gofmt, vet for Linux, macOS and Windows, golangci-lint, the rules of the house
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@for dir in . $(MODULES); do \
	  for os in linux darwin windows; do (cd $$dir && GOOS=$$os CGO_ENABLED=0 go vet ./...) || exit 1; done; \
	  (cd $$dir && $(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	  (cd $$dir && go mod tidy -diff) || exit 1; \
	done
	@scripts/house-rules.sh

bench: setup setup-bench ## measure beside the peers and the raw statements (SCENARIOS=1,6 ENGINES JOBS SECONDS ROUNDS; see bench/README.md)
	@cd bench && go run .

bench-docs: setup setup-bench ## the same, and write pages with plots to docs/benchmarks
	@cd bench && DOCS=../docs/benchmarks go run .

bench-check: setup ## fail where pgqueue drains less than half of what its own statements do in a bare loop
	@cd bench && SCENARIOS=drain ENGINES=pgqueue-tuned,raw JOBS=100000 ROUNDS=3 FLOOR=0.5 go run . >/dev/null

test-bench-peers: setup-tests setup-bench ## run the tests of bench with the peers that need Node or PgQ
	cd bench && go vet -tags peers ./... && $(GOTEST) -tags peers -run TestPeers ./...

assets: setup-assets ## build console/static from console/assets
	@cd console/assets && go run .

assets-check: setup-assets ## fail where console/static is not what console/assets gives
	@cd console/assets && go run . -check

test-assets: setup-assets ## check the types of the console's scripts, and run the tests of their cores under Node
	@cd console/assets && node node_modules/typescript/bin/tsc -p . && \
	  out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && go run . -tests "$$out" && node --enable-source-maps --test "$$out"/*.mjs

test-browser: setup-tests ## run the console's tests in a real browser (PGQUEUE_TEST_SCREENSHOTS=FOLDER keeps pictures)
	@scripts/setup-browser.sh
	cd console/browsertest && $(GOTEST) ./...

PICTURES := overview-desk job-waiting-desk job-waiting-phone attention-desk schedules-desk database-desk performance-desk overview-dark-desk
pictures: setup-tests ## make the pictures of docs/console-screens.md anew
	@scripts/setup-browser.sh
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	  (cd console/browsertest && PGQUEUE_TEST_SCREENSHOTS="$$out" go test -count=1 -run 'TestScreens|TestDark' .) && \
	  for name in $(PICTURES); do cp "$$out/$$name.png" docs/pictures/; done

ci: ## what CI runs
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory assets-check
	$(MAKE) --no-print-directory test-assets
	$(MAKE) --no-print-directory test-browser RACE=
	$(MAKE) --no-print-directory test-oldest RACE=
	$(MAKE) --no-print-directory test-newest RACE=
	$(MAKE) --no-print-directory test-poolers-quick
	$(MAKE) --no-print-directory bench-check

db-up: ## start a Postgres for development in Docker, on port 5433
	docker compose up -d --wait

db-down: ## stop it and remove its data
	docker compose down -v

setup:
	@scripts/setup-postgres.sh

setup-assets:
	@scripts/setup-assets.sh

setup-bench:
	@scripts/setup-bench.sh

# Tests take no DATABASE_URL, so that they never meet somebody's real database.
setup-tests:
	@env -u DATABASE_URL scripts/setup-postgres.sh

$(GOLANGCI):
	@mkdir -p .bin
	@GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION) \
	  > .bin/install.log 2>&1 || { cat .bin/install.log; exit 1; }
	@mv .bin/golangci-lint $@

.PHONY: help demo-outbox demo-embeddings demo demo-serve demo-clean test test-full test-oldest test-newest test-matrix test-containers test-poolers test-poolers-quick test-citus test-browser pictures fuzz lint bench bench-check bench-docs test-bench-peers ci db-up db-down assets assets-check test-assets setup setup-assets setup-bench setup-tests
