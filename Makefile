# `make` is `make check`: what CI runs, in the order CI runs it.
.DEFAULT_GOAL := check
.PHONY: check help test race fuzz bench ratios wire idle fairness mix hold files stall compress client prefork seeds api release tidy cover cross fmt vet

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
	go -C bench test -run '^$$' -bench . -benchmem ./...

ratios: ## the same, interleaved, as a table of ratios
	go -C bench run ./ratios

client: ## clients: ours, fasthttp and net/http, interleaved, 3 min
	go -C bench run ./client

wire: ## CPU time per request over TCP, beside peers; needs Linux and two CPUs
	go -C bench run ./wire

idle: ## memory of idle connections; needs Linux
	go -C bench run ./idle

fairness: ## what a busy server leaves to its process; needs what wire needs
	go -C bench run ./fairness

mix: ## handlers that compute or sleep beside others; needs Linux and two CPUs
	go -C bench run ./mix

hold: ## 19,000 connections for a minute; needs Linux
	go -C bench run ./hold

files: ## static files beside nginx; needs what wire needs, and nginx
	go -C bench run ./files

compress: ## content codings beside klauspost's, brotli's and fasthttp's
	go -C bench run ./compress

stall: ## memory of clients that stop reading; needs Linux
	go -C bench run ./stall

prefork: ## several processes beside one; needs Linux
	go -C bench run ./prefork

seeds: ## the tables of fasthttp's README, beside the published figures
	go -C bench run ./seeds

api: ## what of fasthttp's exported API is missing
	@bash .ci/run api

release: ## is every module installable by version? In a copy; changes nothing here
	@bash .ci/run release

tidy: ## go mod tidy in every module
	@bash .ci/release tidy

cover: ## coverage of the root module, as build/cover.html
	@mkdir -p build
	go test -coverpkg=./... -coverprofile=build/cover.out ./...
	go tool cover -html=build/cover.out -o build/cover.html
	@go tool cover -func=build/cover.out | tail -n 1

cross: ## builds for the other platforms
	@bash .ci/run cross

fmt: ## gofmt everything
	gofmt -w .

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
