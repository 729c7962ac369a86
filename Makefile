# What can be done with this repository. `make help` lists it.

MODULES = . backend cmd/turnwise coord/etcd coord/mysql coord/nats coord/postgres coord/redis examples observe/otel observe/prom peers/clientgo verify/bench verify/browser verify/integration verify/simulation
GO_TEST = go test -race -p 1

# What was built and vetted in one clone is not built and vetted again in the next. What is tested does not depend on the
# shell: its flags count only if they change no result, and variables that lead git, cd or bash astray do not count.
export GOFLAGS := $(strip $(filter -buildvcs=% -modcacherw -p=%,$(GOFLAGS)) -trimpath)
export GOWORK :=
export LC_ALL := C.UTF-8
unexport CDPATH BASH_ENV ENV GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Fetch what the tests run against (ZooKeeper, etcd, Redis, PostgreSQL, MariaDB, memcached, NATS, Prometheus, Curator, Kazoo; no root, pinned, once)
	@bash scripts/deps.sh --interop

.PHONY: test
test: deps ## Run everything; a missing server is a failure
	@$(MAKE) --no-print-directory -j 2 PLANTED_EVERY=12 \
		SYSTEMS=linux/amd64,windows/amd64 \
		test-modules lint test-oldest-go test-shells test-model test-planted test-release bench-smoke # the first mostly waits, the others compute

# Who computes lets those go first who wait for servers, and measure how long it takes.
lint-code lint-os lint-vulns test-oldest-go test-shells test-model: SHELL = nice
lint-code lint-os lint-vulns test-oldest-go test-shells test-model: .SHELLFLAGS = -n 5 sh -c

.PHONY: lint
lint: lint-code lint-tidy lint-os lint-vulns lint-notice lint-workflows ## gofmt, vet and staticcheck, tidy go.mods, other systems, known vulnerabilities, licences, workflows

# Here each module stands by itself, outside go.work, as it does for its users.
lint lint-%: export GOWORK = off

# The tools are pinned in tools/go.mod, a module that nobody else sees.
TOOL = go tool -modfile=$(CURDIR)/tools/go.mod

.PHONY: lint-code
lint-code:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	@set -e; for m in $(MODULES) tools tools/release; do (cd $$m && go vet ./... && $(TOOL) staticcheck ./...); done

# Modules with redsync cannot be tidied everywhere: one of its tests wants rueidiscompat, which not every proxy serves.
# There, vet shows that nothing is missing, and -e that nothing is superfluous.
REDSYNC = verify/bench verify/integration

.PHONY: lint-tidy
lint-tidy:
	@set -e; for m in $(filter-out $(REDSYNC),$(MODULES)) tools tools/release; do (cd $$m && go mod tidy -diff); done
	@for m in $(REDSYNC); do (cd $$m && ! go mod tidy -e -diff 2>/dev/null | grep '^-[^-]') || exit 1; done

# Modules that need minutes to compile what they bring along, once more for each system and each Go, and have no file for any of them.
HEAVY = peers/clientgo

.PHONY: lint-os
lint-os: # that it compiles for systems we have no machine for; only some modules have files of their own for each
	@set -e; for m in $(filter-out $(HEAVY),$(MODULES)); do (cd $$m && GOOS=windows CGO_ENABLED=0 go vet ./...); done
	@set -e; for m in . cmd/turnwise; do (cd $$m && GOOS=darwin CGO_ENABLED=0 go vet ./...); done

.PHONY: lint-vulns
lint-vulns:
	@bash scripts/vulns.sh $(MODULES)

.PHONY: lint-notice
lint-notice: # that NOTICE has the licences of what the tool contains
	@bash scripts/notice.sh --check

.PHONY: lint-workflows
lint-workflows: # what .github/workflows says
	@$(TOOL) actionlint

.PHONY: test-modules
test-modules: # the tests of every module, with the race detector, but not the benchmarks; what takes longest begins first
	scripts/test.sh ./coord/etcd ./coord/zk ./coord/drivertest ./coord/redis ./coord/redis/quorum ./coord/register/... ./verify/integration/... ./coord/postgres \
		./coord/etcd/... ./coord/mysql/... ./coord/nats/... ./coord/postgres/... ./coord/redis/... ./backend/... ./cmd/turnwise/... ./examples/... ./observe/otel/... ./observe/prom/... ./peers/clientgo/... ./verify/browser/... ./verify/simulation/... ./...

.PHONY: test-model
test-model: ## Walk every interleaving of the rules, try every fault at every step (not with the race detector: ten times as long)
	go test -timeout 30m ./verify/model/... ./recipes/barrier ./recipes/multi ./recipes/once ./recipes/shards
	go test -count=1 -timeout 30m ./verify/simulation # no two runs are quite the same

.PHONY: sim
sim: ## Simulate half a million acquisitions under faults, every single fault at every step, and some of the pairs (half an hour)
	go test -count=1 -timeout 120m -v ./verify/simulation -run 'TestSim$$|TestEvery|TestWhatOnceFailed' \
		-sim.runs=$(SIM_RUNS) -sim.pairs=50000 -sim.part=1

SIM_RUNS = 5000

.PHONY: test-planted
test-planted: deps ## Take safeguards away one at a time, and show that tests notice (mostly waiting, so four at once; `make test` takes each twelfth)
	go test -count=1 -timeout 30m -parallel 4 ./verify/planted -run TestNoticed -planted.hunt=$(PLANTED_EVERY)

PLANTED_EVERY = 1

.PHONY: mutants
mutants: deps ## Break the code in small ways, and count what the tests notice (MUTANTS='-seed 7 coord' for another sample)
	go run ./verify/mutants $(MUTANTS)

MUTANTS ?= -sample 20 coord rules recipes register storekit trace backend tool zk etcd file memcached redis quorum postgres mysql nats

.PHONY: chaos
chaos: deps ## Break servers, workers and links on all services, peers beside ours with sessions of 2 and of 10 s (two hours; CHAOS='-members 3 -length 3m' for less)
	@cd verify/integration && set -e; for s in etcd zk; do for t in 2s 10s; do \
		go run ./chaos -service $$s -session $$t $(CHAOS); done; done
	@cd verify/integration && set -e; for s in file redis forgetful quorum postgres mysql memcached nats; do \
		go run ./chaos -service $$s $(CHAOS); done

CHAOS ?= -members 3 -length 10m -peers

.PHONY: test-containers
test-containers: ## Run the conformance suite on servers in containers; IMAGES=local builds small images first
	@[ "$(IMAGES)" != local ] || bash scripts/images.sh
	cd verify/integration && TURNWISE_CONTAINERS=1 $(if $(filter local,$(IMAGES)),$(LOCAL_IMAGES)) \
		$(GO_TEST) -count=1 -timeout 20m ./containers

# Without a registry there is no image for testcontainers' own clean-up either; and the engine is this machine's.
LOCAL_IMAGES = TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 \
	TURNWISE_ZOOKEEPER_IMAGE=turnwise-test/zookeeper TURNWISE_ETCD_IMAGE=turnwise-test/etcd

.PHONY: test-kube
test-kube: ## Build Kubernetes' API server (ten minutes, once), and run the tests on it
	@bash scripts/deps.sh --kube
	TURNWISE_KUBE=1 scripts/test.sh ./coord/kube/... ./peers/clientgo/...
	TURNWISE_KUBE=1 scripts/test.sh -run 'Kube|TestEachServiceByItsURL/kube' ./backend ./cmd/turnwise ./examples ./verify/servers

.PHONY: test-newer
test-newer: deps ## Run the tests of drivers against newer servers: ZooKeeper, Valkey and MySQL as the next Debian has them
	scripts/newer.sh

.PHONY: test-release
test-release: test-release-files ## Make a release that nobody sees, and use it
	@scripts/release.sh --dry-run v0.0.1-test

.PHONY: test-release-files
test-release-files: # build the files of a release twice, and install, unpack and run them (SYSTEMS=linux/amd64 for one alone; `make test` has two)
	cd tools/release && GOWORK=off go test -count=1 -timeout 30m . $(if $(SYSTEMS),-args -systems $(SYSTEMS))

.PHONY: release-files
release-files: ## Build what people install of the tool, for all systems, into bin/release (VERSION=v0.3.0)
	cd tools/release && GOWORK=off go run . -version $(VERSION) $(abspath $(RELEASE_FILES))

RELEASE_FILES = bin/release
VERSION = $(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || echo v0.0.0-dev)

.PHONY: test-long
test-long: ## Run the drivers' tests with crowds of ten thousand, all recipes for ten minutes while servers restart, and the models to the end
	@set -e; for dir in coord coord/etcd coord/mysql coord/nats coord/postgres coord/redis; do \
		(cd $$dir && TURNWISE_LONG=1 TURNWISE_REQUIRE_SERVERS=1 go test -p 1 -count=1 -timeout 90m ./...); \
	done
	cd verify/integration && TURNWISE_REQUIRE_SERVERS=1 go test -count=1 -timeout 60m ./mixed -mixed.length=10m
	TURNWISE_LONG=1 go test -count=1 -timeout 120m ./verify/model/... ./recipes/barrier ./recipes/multi ./recipes/once ./recipes/shards

.PHONY: test-quick
test-quick: ## Run what needs no server, without the race detector
	go test -short $(QUICK_FLAGS) $(QUICK)

QUICK = ./coord ./coord/driver/... ./coord/mem ./coord/register ./coord/trace ./fence/... ./internal/... ./recipes/...

.PHONY: test-shells
test-shells: ## Run what needs no server as other users may: with other variables, folders, programs on PATH, umask, user
	@bash scripts/shells.sh $(QUICK)

.PHONY: test-oldest-go
test-oldest-go: ## Vet every module with the oldest Go that its go.mod allows, and run what needs no server
	@QUICK="$(QUICK)" bash scripts/oldest-go.sh $(filter-out $(HEAVY),$(MODULES))

.PHONY: soak
soak: sim test-planted test-long fuzz leaks mutants chaos killed ## All that takes long: a night's work

.PHONY: leaks
leaks: deps ## Take, cancel and lose locks for ten minutes on each service, and see that nothing grows
	cd verify/integration && TURNWISE_REQUIRE_SERVERS=1 go test -count=1 -timeout 60m ./leaks -leaks.length=10m

.PHONY: killed
killed: deps ## Kill and stop turnwise, its guardian and what it runs, and whoever runs a slot, fifty rounds of each on every service (ROUNDS=5 for less)
	cd cmd/turnwise && TURNWISE_REQUIRE_SERVERS=1 go test -count=1 -timeout 120m -run TestNobody . -killed.rounds=$(ROUNDS)
	cd verify/integration && TURNWISE_REQUIRE_SERVERS=1 go test -count=1 -timeout 120m ./slots -slots.deaths=$(ROUNDS)

ROUNDS ?= 50

.PHONY: bench
bench: deps ## Measure beside the peers, into docs/benchmarks.md (20 minutes; BENCH='-work handoff -rounds 3' for a part)
	cd verify/bench && go run . $(BENCH)

.PHONY: bench-smoke
bench-smoke: ## See that the benchmarks run, in tiny sizes, and check what noise cannot change
	cd verify/bench && TURNWISE_REQUIRE_SERVERS=1 go test -count=1 -timeout 30m ./...

.PHONY: fuzz
fuzz: ## Fuzz the parsing of whatever comes from outside, half a minute each
	@set -e; for m in $(MODULES); do (cd $$m && \
		for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); do \
			for name in $$(grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' $$f/*_test.go | cut -d' ' -f2); do \
				go test $$f -run '^$$' -fuzz "^$$name\$$" -fuzztime 30s; \
			done; \
		done); done
