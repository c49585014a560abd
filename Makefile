# Leasehold. `make help` lists the targets.
GO      ?= go
PKGS    := ./...
# The bindings of servers, and the drills on them, have a target of their own: `test` needs nothing but Go and a C
# compiler, and is quick.
ENGINES := ./drill ./stores/nats/... ./stores/postgres/... ./stores/mysql/... ./stores/s3 ./stores/s3/s3test ./stores/storetest/servers/...
SIZING  := ./stores/sizing
# Pure state exploration: there is nothing in it for the race detector.
MODELS  := ./stores/s3/internal/model ./actors/machine
CORE     = $(filter-out $(shell $(GO) list $(ENGINES) $(SIZING) $(MODELS)),$(shell $(GO) list $(PKGS)))
# `go test`, with a line for each test, or package, as soon as it has ended.
SHOW     = $(GO) tool gotestsum --hide-summary=skipped --format
FUZZTIME ?= 10s
SOAK     ?= 5000

.PHONY: help run test engines drill bench lint fuzz soak
help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start a node on the embedded defaults (127.0.0.1:7070, ./leasehold-data)
	@[ "$$($(GO) list -f '{{.Stale}}' github.com/mattn/go-sqlite3)" = false ] || echo "compiling SQLite, which takes about a minute, and is done once" >&2
	$(GO) run ./cmd/node run

# The simulation runs twice: in full without the race detector, which makes it four times slower, and
# in part with it.
test: lint ## vet, linters, 20 hours of simulated fleet life, every test under the race detector
	$(SHOW) testname -- -timeout 15m ./drill/sim $(MODELS)
	@echo "every package under the race detector: compiling them comes first, and takes minutes the first time"
	$(SHOW) pkgname -- -race -timeout 15m $(CORE)

# The sizing has 5,000 open tenants, and the race detector would measure itself.
engines: ## stores and drills on real servers: NATS and S3 (embedded), PostgreSQL and MariaDB (if installed)
	$(SHOW) pkgname -- -race -timeout 15m $(ENGINES)
	$(GO) test -v -timeout 15m $(SIZING)

lint: ## gofmt, vet, staticcheck (pinned in go.mod)
	@echo "gofmt, vet, staticcheck"
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt'ed:"; echo "$$out"; exit 1; fi
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)

drill: ## the fault-injection drill: three seeds, every planted fault, every engine, a cluster
	$(GO) run ./drill run --seed 1
	$(GO) run ./drill run --seed 2
	$(GO) run ./drill run --seed 3
	$(GO) run ./drill run --break all
	for l in nats postgres mysql s3; do $(GO) run ./drill run --leases $$l || exit 1; done
	$(GO) run ./drill cluster
	$(GO) run ./drill cluster --nats-embedded --ttl 10s --frozen 20s

soak: ## the simulation over SOAK more seeds
	$(GO) test ./drill/sim -run '^TestSeeds$$' -count=1 -timeout=0 -sim.first=1000 -sim.seeds=$(SOAK)

bench: ## benchmarks as ratios against a baseline in the same run
	$(GO) test -run '^$$' -bench . -skip OpenIdle -benchtime 1s ./leaseactor ./ledgeractor ./actors ./actors/cluster
	$(GO) test -run '^$$' -bench OpenIdle -benchtime 2000x ./actors

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done
