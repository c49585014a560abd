# Leasehold. `make help` lists the targets.
GO      ?= go
PKGS    := ./...
# The simulation has its own line in `test`, so that its budget is seen.
FUZZTIME ?= 10s

.PHONY: help run test drill bench lint fuzz soak
help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start a node on the embedded defaults (127.0.0.1:7070, ./leasehold-data)
	$(GO) run ./cmd/node run

test: lint ## vet, linters, every test under the race detector, the simulation
	$(GO) test -race -timeout 15m $(PKGS)

lint: ## gofmt, vet, staticcheck (pinned in go.mod)
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt'ed:"; echo "$$out"; exit 1; fi
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)

drill: ## the fault-injection drill: three seeds, then every planted fault
	$(GO) run ./drill run --seed 1
	$(GO) run ./drill run --seed 2
	$(GO) run ./drill run --seed 3
	$(GO) run ./drill run --break all

bench: ## benchmarks as ratios against a baseline in the same run
	$(GO) test -run '^$$' -bench . -benchtime 1s ./leaseactor ./ledgeractor ./actors

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done
