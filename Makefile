# clustercep: `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Tests start some hundred processes: without bytecode on disk each of them compiles our sources anew.
unexport PYTHONDONTWRITEBYTECODE
LOCKED := requirements/build.txt requirements/runtime.txt requirements/dev.txt

$(STAMP): $(LOCKED) pyproject.toml deploy/setup/system-packages.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "clustercep needs Python 3.11 or newer; found $$($(PYTHON) --version). Set PYTHON=python3.11" >&2; exit 1; }
	@deploy/setup/system-packages.sh librrd-dev gcc libc6-dev python3-dev python3-venv
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/build.txt
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes --no-build-isolation -r requirements/runtime.txt -r requirements/dev.txt
	$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

.PHONY: setup
setup: $(STAMP) ## create .venv with the pinned requirements (and the system packages they need)

# Not part of the set-up: what is not compiled yet runs as Python at first (demo, match), or compiles before it begins.
.PHONY: warm
warm: setup ## compile the matching kernels, minutes once per machine and version
	@$(VENV)/bin/clustercep warm

.PHONY: demo
demo: setup ## replay the recorded cluster through the whole pipeline (DEMO_ARGS=--once exits at the end)
	@$(VENV)/bin/clustercep demo $(DEMO_ARGS)

# One worker more than cores: some wait for a JVM, a browser or another process much of the time. What makes way for a live
# process (the worker of queries, compilers) would get next to nothing beside them, were they not at a low priority, too.
in_workers = nice -n 15 $(PY) -m pytest -n $$(($$(nproc) + 1)) --dist loadgroup --no-loadscope-reorder -m "$(1)"

# Of many tests of one kind, each of which takes long, a change runs a part that its content tells (tests/turns.py): the
# same part whenever it is looked at again. CLUSTERCEP_TEST_TURN= runs all.
.PHONY: test
test: export CLUSTERCEP_TEST_TURN ?= $(shell git rev-parse --short=7 'HEAD^{tree}' 2>/dev/null || echo 0)
test: warm ## run the tests (TEST_ARGS= is passed to pytest), also in Chromium, on PostgreSQL and against rrdtool where these can be installed
	@deploy/setup/for-tests.sh
	@$(call in_workers,not long) $(TEST_ARGS)

.PHONY: test-long
test-long: warm ## the tests that `make test` leaves out: campaigns of minutes, and those of which it runs a part in turn
	@deploy/setup/for-tests.sh
	@$(call in_workers,long or in_turn) $(TEST_ARGS)

# The clusters end with pytest, however that ends.
define beside_cluster
	@deploy/minicluster/install.sh </dev/null
	@timeout --foreground --signal=INT --kill-after=90 18m $(PY) -m pytest -s $(1) $(LIVE_ARGS) </dev/null || \
	  { status=$$?; [ $$status -ne 124 ] || echo "make $@: not done within 18 minutes; what it had started has ended" >&2; exit $$status; }
endef

.PHONY: live
live: warm ## clustercep beside the mini cluster: are its faults found while they happen? (7 minutes on 2 cores)
	$(call beside_cluster,tests/live/test_live.py)

.PHONY: live-daemons
live-daemons: warm ## the same with faults of daemons, containers, masters and queues (11 minutes on 2 cores)
	$(call beside_cluster,tests/live/test_daemons.py)

.PHONY: live-spark
live-spark: live-stream ## the jobs on Spark with the mini cluster's HDFS and YARN, with Kafka, and ended in the middle
	$(call beside_cluster,tests/live/test_event_store_on_hdfs.py tests/live/test_spark_on_yarn.py)

.PHONY: live-stream
live-stream: warm ## the part of live-spark that needs no YARN: with Kafka, and ended in the middle
	@deploy/kafka/install.sh </dev/null
	@# Kafka's jars are on the class path of a JVM that is started with them: a process of its own.
	$(call beside_cluster,tests/live/test_stream_from_kafka.py)
	$(call beside_cluster,tests/live/test_ended_jobs.py tests/live/test_interrupted_stream.py)

.PHONY: lint
lint: setup ## ruff, mypy --strict and the layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

.PHONY: format
format: setup ## let ruff mend what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

MINUTES ?= 2
.PHONY: fuzz
fuzz: warm ## search for wrong answers of the engine with fresh cases, MINUTES=2 (FUZZ_ARGS="--seed 1 --only groups")
	@$(PY) -m tests.fuzz --minutes $(MINUTES) $(FUZZ_ARGS)

.PHONY: fuzz-costs
fuzz-costs: warm ## search for queries that cost too much over hostile streams, MINUTES=2 (FUZZ_ARGS=)
	@$(PY) -m tests.fuzz --costs --minutes $(MINUTES) $(FUZZ_ARGS)

TORTURE_MINUTES ?= 20
.PHONY: torture
torture: warm ## one campaign against the running program (CAMPAIGN=kills, without one: the list), TORTURE_MINUTES=20
	@deploy/setup/for-tests.sh
	@$(if $(filter spark,$(CAMPAIGN)),deploy/minicluster/install.sh </dev/null,:)
	@$(PY) -m tests.torture $(CAMPAIGN) --minutes $(TORTURE_MINUTES) $(TORTURE_ARGS)

.PHONY: bench
bench: warm ## run the benchmarks (BENCH=name for one); tables on screen, JSON in build/benchmarks
	@$(PY) -m benchmarks $(BENCH)

.PHONY: cluster
cluster: setup ## start the mini cluster, run its workload with faults, stop it (CLUSTER_ARGS=)
	@deploy/minicluster/install.sh
	@$(PY) -m deploy.minicluster run $(CLUSTER_ARGS)

.PHONY: record
record: setup ## as cluster, and save the run as a recording in build/recording (RECORD_ARGS=)
	@deploy/minicluster/install.sh
	@$(PY) -m deploy.minicluster record --out build/recording $(RECORD_ARGS)

LEVEL ?= x86-64-v3
.PHONY: wheel
wheel: warm ## a wheel with compiled kernels in build/wheel, and the proof that it needs no compiler (LEVEL=x86-64-v3)
	@$(PY) -m deploy.wheel --level $(LEVEL)

.PHONY: lock
lock: ## renew the pinned requirements from requirements/*.in
	@for part in build runtime dev; do \
	  $(VENV)/bin/uv pip compile -q --generate-hashes --no-header --no-annotate --python-version 3.11 --allow-unsafe \
	    requirements/$$part.in -o requirements/$$part.txt || exit 1; done
	@$(VENV)/bin/uv pip compile -q --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  -c requirements/runtime.txt requirements/apprise.in -o requirements/apprise.txt
	@$(VENV)/bin/uv pip compile -q --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  requirements/kerberos-build.in -o requirements/kerberos-build.txt
	@$(VENV)/bin/uv pip compile -q --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  -c requirements/runtime.txt requirements/kerberos.in -o requirements/kerberos.txt

.PHONY: sbom
sbom: setup ## what clustercep is made of, as CycloneDX, in build/sbom.json: packages and jars with hashes and licences
	@$(PY) -m deploy.supply sbom build/sbom.json

.PHONY: advisories
advisories: setup ## known advisories about the pinned parts, without a network (ADVISORIES=FOLDER of OSV's or PyPA's)
	@$(PY) -m deploy.supply advisories "$(ADVISORIES)"

.PHONY: clean
clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) build

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
