# Chores, one command each; every one works in a fresh clone. `make` alone lists them.

PYTHON  ?= python3
DATA    ?= ./data
SEEDS   ?= 100000
FIRST   ?= 0
ROUNDS  ?= 10
# Enough for 10,000 power losses.
SIMS    := 460
# Simulated clusters, two minutes on two processors.
CLUSTERS := 300
VENV    := .venv
BIN     := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -path '*/management/ui/*' -type f) pyproject.toml setup.py README.md LICENSE
TYPED   := src tests benchmarks tools setup.py prerequisites.py $(wildcard examples)
NODE    := tests/interop/node tests/ui/node
CONFORM := tests/conformance
# Most tests wait for something; tests/conftest.py says which of them stay together, and which begin.
SIDE_BY_SIDE := -n 4 --dist loadscope --no-loadscope-reorder
# Tests of one process without sockets, of packages that are compiled: what both builds have to pass.
BOTH_BUILDS := $(wildcard $(addprefix tests/unit/,base broker client gateway protocol server storage wire) tests/property) tests/integration/test_replication.py $(CONFORM)
INTERPRETED := FLINTMQ_EXPECT=interpreted PYTHONPATH=src TEST_EFFORT=0.2 $(BIN)/python -m pytest -n 2 --dist loadscope -m "not process and not long"
# Enough for tools and interpreted tests: an edited source need not be compiled and installed before.
INSTALLED = $(if $(wildcard $(VENV)/.development),,$(VENV)/.development)
# Only what was installed counts, whatever the caller has in the environment.
unexport PYTHONPATH
# What was compiled once, tests with their asserts rewritten above all, is not compiled again by every process.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run check test prove prerequisites-of-tests prerequisites-of-demo prerequisites-of-cluster docs security conformance mutations fuzz crash crash-long spark-long
.PHONY: faults bitflips audit sim sim-long sim-cluster sim-cluster-long demo cluster-demo cluster-campaign cluster-upgrade interop bench bench-fair bench-routing bench-depth bench-cluster bench-joining bench-listing bench-recovery bench-spark lint format client methods clean

help:
	@echo 'make run          install FlintMQ into .venv, compiled, and serve from ./data (DATA=DIR for another place)'
	@echo 'make check        lint, unit tests, model machines and rules of AMQP, interpreted: minutes, without compiling'
	@echo 'make test         what CI runs: lint, the whole suite compiled, the hot path again interpreted: 20 minutes'
	@echo 'make prove        what takes hours, before a release: every campaign below at its full length'
	@echo 'make docs         the documentation as a site, in build/docs'
	@echo 'make conformance  AMQP rule by rule, written down in docs/conformance-*.md'
	@echo 'make mutations    breaks each of these rules in a copy of the sources, and sees its test fail: 20 minutes'
	@echo 'make demo         the flights example, from a publisher through Spark'
	@echo 'make cluster-demo three nodes and etcd: the leader is killed, hangs and is cut off, and nothing is lost'
	@echo 'make cluster-campaign  15 kinds of faults of nodes, disks, etcd and the network, ROUNDS times each, under load, with Spark: 3 minutes each'
	@echo '                       (ARGS=--asked: 171 faults, among them 100 kills and 30 partitions, in half an hour)'
	@echo 'make cluster-upgrade   a rolling upgrade of a cluster under load, from the build of the commit FROM to this one'
	@echo 'make interop      tests of py-amqp, kombu, aiormq and aio-pika against FlintMQ (interop-amqp and so on: one of them)'
	@echo 'make bench        FlintMQ beside RabbitMQ, where that is installed (ARGS="--loads a16,b16 --runs 1")'
	@echo 'make bench-fair   many clients at once, floods, memory and starts, with what is asked of each (ARGS="--rows crowd --runs 1")'
	@echo 'make bench-routing what 10,000 queues and 110,000 bindings cost publishers; make bench does it, too'
	@echo 'make bench-depth  what deep queues, many queues and many publishers cost; make bench does it, too'
	@echo 'make bench-listing what consumers notice while somebody lists 10,000 queues over HTTP'
	@echo 'make bench-cluster three nodes beside one, and beside three of RabbitMQ; how long a lost leader stops publishers'
	@echo 'make bench-joining what publishers notice while a node joins a cluster and copies 3 GB'
	@echo 'make bench-recovery how long a killed broker takes to accept again, with a million messages in its journal'
	@echo 'make bench-spark  what Spark reads and writes, beside what it does with no broker, and with pika: 5 minutes'
	@echo 'make fuzz         spoiled sessions against the engines and the broker, SEEDS of them (SEEDS=1000000 FIRST=0)'
	@echo 'make crash        200 kills under load, and how long it takes to accept again; 1,000 by make crash-long'
	@echo 'make spark-long   200 kills of drivers, executors and the broker, while Spark moves a million messages once'
	@echo 'make faults       every fault at every call to the disk; make bitflips spoils 10,000 data directories'
	@echo 'make audit        a broker under strace: every confirm is sent after the sync that covers it'
	@echo 'make sim          a simulated node that loses its power, SEEDS times about 22 (SEEDS=10000 FIRST=0)'
	@echo 'make sim-long     100,000 of them'
	@echo 'make sim-cluster  simulated clusters of three and five nodes, SEEDS of them (SEEDS=10000 FIRST=0)'
	@echo 'make security     10,000 half-open and dripping connections, 100 wrong passwords a second: what they cost clients'
	@echo 'make lint         style, types, and who imports whom'
	@echo 'make format       format the code, and mend what can be mended'
	@echo 'make client       generate the blocking clients from the asyncio clients (blocking.py from aio.py)'
	@echo 'make methods      generate the classes of the AMQP 0-9-1 methods from their table (methods.py from spec.py)'
	@echo 'make clean        remove what building and testing left; ./data stays'

# What is missing is said first, before minutes of compiling; $(1) is what is about to be done.
define prerequisites
	@$(PYTHON) prerequisites.py $(1)
endef

run: $(VENV)/.broker
	@$(BIN)/flintmq serve --data $(DATA)

check: lint
	@echo '==> Unit tests, model machines and rules of AMQP, interpreted'
	@$(INTERPRETED) $(wildcard tests/unit tests/property) $(CONFORM)

test: prerequisites-of-tests lint docs $(VENV)/.development $(VENV)/.node $(VENV)/.chromium $(VENV)/.etcd $(VENV)/.spark
	@echo '==> All tests, compiled'
	@FLINTMQ_EXPECT=compiled $(BIN)/python -m pytest $(SIDE_BY_SIDE)
	@echo '==> The hot path again, interpreted'
	@$(INTERPRETED) $(BOTH_BUILDS)
	@echo '==> 10,000 power losses, simulated'
	@$(BIN)/python -m tests.sim --seeds $(SIMS)
	@echo '==> Clusters, simulated'
	@$(BIN)/python -m tests.sim.cluster --seeds $(CLUSTERS)

# One after the other, whatever -j says: each takes all processors, or measures.
prove: $(VENV)/.development $(VENV)/.spark
	@echo '==> Model machines and kills, ten times as many'
	@TEST_EFFORT=10 $(BIN)/python -m pytest $(SIDE_BY_SIDE) --timeout 3600 tests/property tests/crash
	@echo '==> Breaking the broker, interpreted, and seeing the simulator find it'
	@FLINTMQ_EXPECT=interpreted PYTHONPATH=src $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/sim
	@echo '==> Rules of AMQP over sockets, too'
	@FLINTMQ_EXPECT=compiled $(BIN)/python -m pytest $(SIDE_BY_SIDE) --over-sockets $(CONFORM)
	@echo '==> Tests that take minutes'
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m long
	@for campaign in conformance mutations fuzz crash-long faults bitflips audit sim-long sim-cluster-long security spark-long; do \
		echo "==> $$campaign" && $(MAKE) --no-print-directory $$campaign || exit; \
	done
	@echo '==> A cluster that stands all faults, and an upgrade'
	@$(MAKE) --no-print-directory cluster-campaign ROUNDS= ARGS=--asked
	@$(MAKE) --no-print-directory cluster-upgrade

prerequisites-of-tests:
	$(call prerequisites,test)

prerequisites-of-demo:
	$(call prerequisites,demo)

prerequisites-of-cluster:
	$(call prerequisites,cluster)

# From the sources as they are: what is compiled does not tell its signatures.
docs: $(VENV)/.development
	@echo '==> The documentation, without a warning'
	@PYTHONPATH=src $(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/docs

fuzz: $(VENV)/.development
	@$(BIN)/python -m tests.fuzz $(SEEDS) $(FIRST)

crash: $(VENV)/.development
	@$(BIN)/python -m tests.crash 200

crash-long: $(VENV)/.development
	@$(BIN)/python -m tests.crash 1000

spark-long: $(VENV)/.development
	@$(BIN)/python -m tests.spark.killing 200

faults: $(VENV)/.development
	@$(BIN)/python -m tests.faults

audit: $(VENV)/.development
	@$(BIN)/python -m tests.faults.auditing 20000

bitflips: $(VENV)/.development
	@$(BIN)/python -m tests.faults.flipping 10000

security: $(VENV)/.development
	@ulimit -n $$(ulimit -Hn) && $(BIN)/python -m tests.security 10000

sim: SEEDS := $(SIMS)
sim: $(VENV)/.development
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) --first $(FIRST)

sim-long: $(VENV)/.development
	@$(BIN)/python -m tests.sim --seeds 4600 --first 10000

sim-cluster: SEEDS := $(CLUSTERS)
sim-cluster: $(VENV)/.development
	@$(BIN)/python -m tests.sim.cluster --seeds $(SEEDS) --first $(FIRST)

sim-cluster-long: $(VENV)/.development
	@$(BIN)/python -m tests.sim.cluster --seeds 10000 --first 10000

conformance: $(VENV)/.development
	@FLINTMQ_EXPECT=compiled $(BIN)/python -m pytest --write-conformance --ignore-glob "*/test_document.py" $(CONFORM)

mutations: $(VENV)/.development
	@PYTHONPATH=src $(BIN)/python -m tests.conformance.mutations $(ARGS)

demo: prerequisites-of-demo $(VENV)/.demo
	@$(BIN)/python examples/flights/run.py

cluster-demo: prerequisites-of-cluster $(VENV)/.demo $(VENV)/.etcd
	@$(BIN)/python -m tests.cluster

cluster-campaign: prerequisites-of-cluster $(VENV)/.development $(VENV)/.spark $(VENV)/.etcd
	@$(BIN)/python -m tests.cluster.campaign $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

cluster-upgrade: FROM := HEAD~1
cluster-upgrade: prerequisites-of-cluster $(VENV)/.development $(VENV)/.etcd
	@$(BIN)/python -m tests.cluster.upgrade --from $(FROM)

interop: $(VENV)/.development
	@$(BIN)/python -m tests.interop.suites

# interop-pika is there, too: it needs ARGS="--checkout DIR", for pika publishes its tests in its repository only.
interop-%: $(VENV)/.development
	@$(BIN)/python -m tests.interop.suites $* $(ARGS)

bench: $(VENV)/.broker
	@$(BIN)/python -m benchmarks.bench $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.routing)
	@$(if $(ARGS),,$(BIN)/python -m benchmarks.depth)

bench-fair: $(VENV)/.broker
	@$(BIN)/python -m benchmarks.fair $(ARGS)

bench-routing: $(VENV)/.broker
	@$(BIN)/python -m benchmarks.routing $(ARGS)

bench-depth: $(VENV)/.broker
	@$(BIN)/python -m benchmarks.depth $(ARGS)

bench-cluster: $(VENV)/.development
	@$(BIN)/python -m benchmarks.cluster $(ARGS)

bench-joining: $(VENV)/.development
	@$(BIN)/python -m benchmarks.joining $(ARGS)

bench-listing: $(VENV)/.development
	@$(BIN)/python -m benchmarks.listing $(ARGS)

bench-recovery: $(VENV)/.broker
	@$(BIN)/python -m benchmarks.recovery $(ARGS)

bench-spark: $(VENV)/.demo
	@$(BIN)/python -m benchmarks.spark $(ARGS)

lint: $(INSTALLED)
	@echo '==> Lint'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy $(TYPED)
	@PYTHONPATH=src $(BIN)/lint-imports --no-logo

format: $(INSTALLED)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

client: $(INSTALLED)
	@$(BIN)/python tools/blocking_client.py

methods: $(INSTALLED)
	@PYTHONPATH=src $(BIN)/python tools/amqp091_methods.py

clean:
	rm -rf $(VENV) .interop build dist src/*.egg-info .bench-data .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf $(addsuffix /node_modules,$(NODE)) benchmarks/load/amqpload
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The stamps below say what .venv holds: they are older than what they were made from exactly when it changed.

# A virtual environment that was made by halves would be taken for one the next time.
$(BIN)/python:
	$(call prerequisites)
	@$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip || { rm -rf $(VENV); exit 1; }

# Modules that were deleted or renamed must not come back from the last build.
$(VENV)/.broker: $(BIN)/python $(SOURCES)
	@echo '==> Compiling and installing FlintMQ into $(VENV): a few minutes'
	@rm -rf build
	@FLINTMQ_BUILD=compiled $(BIN)/python -m pip install --quiet .
	@touch $@

# The extras by name: pip finds FlintMQ itself installed, and adds what they ask for.
$(VENV)/.demo: $(VENV)/.broker
	@echo '==> Installing what the demo needs'
	@$(BIN)/python -m pip install --quiet 'flintmq[demo]'
	@touch $@

$(VENV)/.development: $(VENV)/.broker
	@echo '==> Installing what the tests need'
	@$(BIN)/python -m pip install --quiet 'flintmq[test,lint,docs]'
	@touch $@

# Without node, the tests that need it skip and say so.
$(VENV)/.node: $(BIN)/python $(wildcard $(addsuffix /package-lock.json,$(NODE)))
	@if command -v npm >/dev/null; then \
		echo '==> Installing what tests need of Node.js' && for folder in $(NODE); do npm ci --silent --prefix $$folder || exit; done; \
	fi
	@touch $@

# Debian's, where there is none and we may install it; without it, the tests of the web interface skip and say so.
$(VENV)/.chromium: $(BIN)/python
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo '==> Installing Chromium' && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null || echo 'Chromium cannot be installed'; \
	fi
	@touch $@

# The same: without etcd, the tests of clusters skip and say so. Debian's package would start a server of its own.
$(VENV)/.etcd: $(BIN)/python
	@if ! command -v etcd >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo '==> Installing etcd' && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qq -y --no-install-recommends etcd-server >/dev/null || echo 'etcd cannot be installed'; \
	fi
	@touch $@

# Without it, as without Java, nothing is missing but time. It depends on Spark alone, and not on what FlintMQ is made from.
$(VENV)/.spark: pyproject.toml | $(VENV)/.development
	@if command -v java >/dev/null; then \
		echo "==> Keeping Spark's classes as its JVMs have them loaded" && $(BIN)/python -m tests.spark.jvm; \
	fi
	@touch $@
