# `make` is `make check`: what CI runs, in the order CI runs it.
.DEFAULT_GOAL := check
comparisons := ratios wire idle fairness mix hold files stall prefork seeds proxy
.PHONY: check help hooks test race fuzz bench $(comparisons) api release tidy cover cross fmt vet

check: ## everything that CI runs
	@bash .ci/run

test: ## unit tests of the root module, with the architecture's rules
	@bash .ci/run test

race: ## the same under the race detector
	@bash .ci/run race

vet: ## go vet in every module
	@bash .ci/run vet

fuzz: ## every fuzz target for FUZZ_TIME (60s)
	@FUZZ_TIME=$(or $(FUZZ_TIME),60s) bash .ci/run fuzz

bench: ## Go benchmarks: ours, fasthttp and net/http
	go -C tools/bench test -run '^$$' -bench . -benchmem ./...

# The comparisons; "go -C tools/bench run . --help" says what each of them does.
$(comparisons):
	go -C tools/bench run . $@

api: ## what of fasthttp's exported API is missing
	@bash .ci/run api

release: ## with VERSION=v0.1.0: tags it, and makes its archives in DIR (dist); else: is every module installable by version?
	@$(if $(VERSION),bash .ci/release $(VERSION) && bash .ci/release build $(VERSION) $(or $(DIR),dist),bash .ci/run release)

tidy: ## go mod tidy in every module
	@bash .ci/release tidy

cover: ## is each package covered by its own tests?
	@bash .ci/run cover

cross: ## builds for the other platforms
	@bash .ci/run cross

fmt: ## gofmt everything
	gofmt -w .

hooks: ## have git check formatting and architecture before each commit
	git config core.hooksPath .ci/hooks

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "$(comparisons): comparisons, see docs/benchmarking.md"
