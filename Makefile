# Every target is one command. It needs a C compiler, make and Python (3.11 or newer, with its
# headers and venv); everything else goes into .venv. Stamps in there keep repeated runs quick.
# What runs on Spark has .venv-spark and .venv-spark-next beside it, and needs Java 17 or newer.

PYTHON ?= python3.13 python3.12 python3.11 python3
WORKERS ?= 2
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
INSTALL := -m pip --quiet --disable-pip-version-check install
SPARK := .venv-spark
SPARK_NEXT := .venv-spark-next
SOURCES := setup.py $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c')
MODULES := $(subst /,.,$(patsubst src/%.pyx,%,$(filter %.pyx,$(SOURCES))))
SAMPLES := $(addprefix examples/,service.py analysis.py operations.py) tests/config/typing_samples.py
SAY := @printf '==> %s\n'

export LOGSTORE_BUILD_JOBS := $(WORKERS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo build release changelog docs test lint sanitize fuzz soak interop fixtures bench rows clean
.PHONY: demo-cluster bench-before bench-spark bench-clients bench-brokers java no-test-yet test-core test-spark sanitize-threads
.PHONY: demo-with-java demo-cluster-with-java test-with-java interop-with-java bench-with-java

help:
	@echo 'make demo    load real flights into a log, kill the loader, reopen, read, print one table'
	@echo 'make demo-cluster  real flights on a Spark of three processes, by files and by a secured Kafka'
	@echo 'make test    run the tests (one of them: make test ARGS="-k recovery")'
	@echo 'make lint    ruff, words, changelog, cython-lint, mypy --strict, stubtest, C warnings as errors'
	@echo 'make interop fetch a real Kafka, run the tests that need it (Java 17, Maven, Go, Node, strace, root)'
	@echo 'make sanitize  core, log, store and crash tests and a short fuzz with ASan and UBSan, threads with TSan'
	@echo 'make fuzz    hostile input for every parser (INPUTS=1000000 each; SANITIZE=1 with sanitizers)'
	@echo 'make soak    an hour of kills, power cuts, flipped bits and fuzz, with what each has counted'
	@echo 'make bench   run the benchmarks and print one table (a part: make bench ARGS="-k append")'
	@echo 'make bench-before COMMIT=REV  the same benchmarks on another commit and on this one, in turn (ROUNDS=3)'
	@echo 'make bench-spark  the Spark source and sink beside Spark'"'"'s Kafka connector, Parquet and Arrow'
	@echo 'make bench-clients  clients of a real Kafka beside each other: ours, confluent-kafka, aiokafka'
	@echo 'make bench-brokers  logstore serve beside a real Kafka: produce, fetch, round trips'
	@echo 'make rows    list what a user shall see, with the test that shows it'
	@echo 'make docs    the pages as HTML in build/docs'
	@echo 'make changelog  CHANGELOG.md from news/ (at a release: make changelog VERSION=2026.12.0)'
	@echo 'make build   make the source distribution and the wheel in dist/'
	@echo 'make release wheels for each Python of this machine, checked, installed from a private index, tried'
	@echo 'make clean   remove everything that these commands have made'
	@echo 'PYTHON=/path/to/python chooses the interpreter when .venv is made.'

demo: $(VENV)/.with-demo $(VENV)/.built
	$(SAY) 'demo: flights into ./demo-data'
	@$(PY) -m examples.flights --directory demo-data $(ARGS)
	$(SAY) 'demo: two processes replicate a log, into ./demo-data-replicated'
	@$(PY) -m examples.replicated --directory demo-data-replicated
	@$(MAKE) --no-print-directory java
	@$(call with-java,demo: Spark's part,demo-with-java)

demo-with-java: $(SPARK)/.with-spark-test
	$(SAY) 'demo: flights and weather on Spark, into ./demo-data-spark'
	@$(SPARK)/bin/python -m examples.flights_spark --directory demo-data-spark

# Through a broker as well, over TLS and with a login, where make interop has fetched one.
demo-cluster: $(VENV)/.built java
	@$(call with-java,demo-cluster: all of it,demo-cluster-with-java)

demo-cluster-with-java: $(SPARK)/.with-spark-test
	$(SAY) 'demo-cluster: flights and weather on a Spark of a master and two workers, into ./demo-data-cluster'
	@$(if $(wildcard build/kafka/libs-*),$(PY) -m tests.interop.secured) $(SPARK)/bin/python -m examples.spark_cluster \
		--directory demo-data-cluster $(if $(wildcard build/kafka/libs-*),--bootstrap BOOTSTRAP --profile PROFILE) \
		$(ARGS)

# Paths in ARGS choose the environment: those below tests/spark are for Spark's alone, others for .venv alone.
# Any other selection may leave nothing to one of the two, but not to both (5 is pytest's "no tests").
ON_SPARK := $(filter tests/spark%,$(ARGS))
ELSEWHERE := $(filter-out tests/spark%,$(filter tests/%,$(ARGS)))
NONE_YET := $(VENV)/.none-selected
COUNTED := && rm -f $(NONE_YET) || test $$? -eq 5

CORE_TOO := $(ELSEWHERE)$(if $(ON_SPARK),,.)
SPARK_TOO := $(ON_SPARK)$(if $(ELSEWHERE),,.)

test: no-test-yet $(if $(CORE_TOO),test-core) $(if $(SPARK_TOO),test-spark)
	@test ! -e $(NONE_YET) || { echo 'no test was selected'; exit 5; }

no-test-yet: $(VENV)/.made
	@touch $(NONE_YET)

test-core: $(VENV)/.with-test $(VENV)/.built
	$(SAY) 'test: pytest with $(WORKERS) workers'
	@$(PY) -m pytest -q -p no:benchmark -n $(WORKERS) --dist worksteal $(filter-out $(ON_SPARK),$(ARGS)) $(COUNTED)

test-spark: $(VENV)/.built java
	@$(call with-java,test: what needs Spark,test-with-java)

SPARK_ARGS = $(filter-out $(ELSEWHERE),$(ARGS)) $(if $(ON_SPARK),,tests/spark)

test-with-java: $(SPARK)/.with-spark-test $(if $(ON_SPARK),,$(SPARK_NEXT)/.with-spark-test)
	$(SAY) 'test: on Spark'
	@$(SPARK)/bin/python -m pytest -q $(SPARK_ARGS) $(COUNTED)
	$(if $(ON_SPARK),,$(SAY) 'test: on the next Spark')
	$(if $(ON_SPARK),,@$(SPARK_NEXT)/bin/python -m pytest -q $(patsubst tests/spark,tests/spark/test_smoke.py,$(SPARK_ARGS)) $(COUNTED))

# mypy follows the test libraries too: without them their decorators and strategies would have no types.
lint: $(VENV)/.with-test $(VENV)/.with-lint $(VENV)/.built $(VENV)/.strict
	$(SAY) 'ruff check'
	@$(PY) -m ruff check --quiet .
	$(SAY) 'ruff format --check'
	@$(PY) -m ruff format --check --quiet . || { echo 'to repair: $(PY) -m ruff format .'; exit 1; }
	$(SAY) 'words'
	@$(PY) tests/words.py
	$(SAY) 'changelog'
	@$(PY) -m release.news --check
	$(SAY) 'cython-lint'
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cython-lint src
	$(SAY) 'mypy --strict'
	@$(PY) -m mypy --no-error-summary
	$(SAY) 'mypy --strict and pyright: programs of a user'
	@MYPYPATH=src $(PY) -m mypy --strict --no-error-summary --config-file= --cache-dir .mypy_cache/samples \
		$(SAMPLES)
	@$(PY) -m pyright --pythonpath $(PY) $(SAMPLES) >$(VENV)/pyright.log || { cat $(VENV)/pyright.log; exit 1; }
	$(SAY) 'stubtest: $(words $(MODULES)) compiled modules'
	@test -z '$(MODULES)' || $(PY) -m mypy.stubtest --concise --mypy-config-file pyproject.toml \
		--allowlist tests/stubtest-allowlist.txt --ignore-unused-allowlist $(MODULES)

# Kafka comes from Maven Central into build/kafka, once, and a Go client is built there.
interop: $(VENV)/.with-interop $(VENV)/.built no-test-yet
	$(SAY) 'interop: Kafka from Maven, its tools, broker and clients on our files, ours on theirs'
	@$(PY) -m tests.interop.broker
	@$(if $(CORE_TOO),$(PY) -m pytest $(if $(ELSEWHERE),,tests/interop) -q -p no:benchmark -m interop \
		$(filter-out $(ON_SPARK),$(ARGS)) $(COUNTED))
	@$(if $(SPARK_TOO),$(MAKE) --no-print-directory interop-with-java)
	@test ! -e $(NONE_YET) || { echo 'no test was selected'; exit 5; }

interop-with-java: $(SPARK)/.with-spark-kafka $(if $(ON_SPARK),,$(SPARK_NEXT)/.with-spark-test)
	$(SAY) 'interop: Spark with a real Kafka, and with its own connector'
	@$(SPARK)/bin/python -m pytest -q -m interop $(SPARK_ARGS) $(COUNTED)
	$(if $(ON_SPARK),,$(SAY) 'interop: the next Spark with a secured Kafka')
	$(if $(ON_SPARK),,@$(SPARK_NEXT)/bin/python -m pytest -q -m interop \
		$(patsubst tests/spark,tests/spark/test_secured_kafka.py,$(SPARK_ARGS)) $(COUNTED))

# Only for a new version of Kafka: what is in tests/fixtures must be read for ever.
fixtures: $(VENV)/.with-interop $(VENV)/.built
	$(SAY) 'fixtures: a real Kafka writes tests/fixtures again'
	@$(PY) -m tests.interop.make_fixtures

# See docs/testing.md. The preloaded libraries are those of the compiler that has built the extensions.
SANITIZED := build/sanitize/lib
PRELOAD = $(shell for library in libasan.so libubsan.so libstdc++.so.6; do $(CC) -print-file-name=$$library; done)
UNDER_SANITIZERS = PYTHONPATH=$(SANITIZED) LD_PRELOAD='$(PRELOAD)' PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=64:allocator_may_return_null=1:handle_sigbus=0 \
	UBSAN_OPTIONS=print_stacktrace=1
NOT_CORE := tests/test_layering.py

# ThreadSanitizer goes with no other sanitizer, so it has a build of its own. Tests that import polars are left out:
# its allocator ends the process under TSan. The reports are files: pytest keeps what a process that ends has printed.
THREADS := build/threads
TSAN := $(shell $(CC) -print-file-name=libtsan.so)
TSAN_FILES := suppressions=$(CURDIR)/tests/sanitize/threads.supp:log_path=$(CURDIR)/$(THREADS)/report
UNDER_TSAN = PYTHONPATH=$(THREADS)/lib LD_PRELOAD='$(TSAN)' PYTHONMALLOC=malloc \
	TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:report_thread_leaks=0:$(TSAN_FILES)
THREADED := tests/sanitize/test_threads.py tests/test_segment.py tests/io/test_files.py \
	tests/batch/test_codec.py::test_threads_do_not_share_a_context \
	tests/log/marks/test_watermark.py tests/log/test_beside_changes.py tests/log/append/test_group_commit.py \
	tests/log/append/test_appender.py tests/accumulator tests/crash/test_hammer.py tests/client/test_producer.py \
	tests/store/catalog/test_partitions.py tests/io/test_side_by_side.py \
	tests/testing/test_faulty_files.py tests/testing/test_simdisk.py

sanitize: $(VENV)/.with-test $(VENV)/.sanitized
	$(SAY) 'sanitize: planted faults, core, log, store and crash tests'
	@$(UNDER_SANITIZERS) LOGSTORE_KILLS=20 LOGSTORE_FLIPS=600 \
		$(PY) -m pytest -q -p no:benchmark -n $(WORKERS) --dist worksteal --timeout 900 \
		tests/sanitize tests/batch tests/io tests/columns tests/config $(filter-out $(NOT_CORE),$(wildcard tests/test_*.py)) \
		tests/log tests/store tests/testing tests/protocol tests/remote tests/crash tests/fuzz $(ARGS)
	@$(MAKE) --no-print-directory sanitize-threads
	$(SAY) 'sanitize: every parser for $(MINUTES) minutes together'
	@$(UNDER_SANITIZERS) $(PY) tests/fuzz/run.py --inputs $(INPUTS) --minutes $(MINUTES) --seed $(SEED)

sanitize-threads: $(VENV)/.with-test $(if $(wildcard $(TSAN)),$(VENV)/.sanitized-threads)
	$(SAY) 'sanitize: threads in the compiled core'
	@$(if $(wildcard $(TSAN)),rm -f $(THREADS)/report.*; $(UNDER_TSAN) LOGSTORE_FLIPS=600 \
		$(PY) -m pytest -q -p no:benchmark -n $(WORKERS) --dist worksteal --timeout 900 $(THREADED) $(ARGS) \
		|| { cat $(THREADS)/report.* 2>/dev/null; exit 1; }, \
		echo 'left out: libtsan.so of $(CC) is missing (Debian and Ubuntu: apt install libtsan2, or libtsan0 before gcc 11)')

INPUTS ?= 1000000
MINUTES ?= 3
SEED ?= 1
TARGET ?= all
SANITIZE ?= 0

fuzz: $(VENV)/.with-test $(if $(filter 1,$(SANITIZE)),$(VENV)/.sanitized,$(VENV)/.built)
	$(SAY) 'fuzz: $(INPUTS) inputs for each target$(if $(filter 1,$(SANITIZE)), under sanitizers)'
	@$(if $(filter 1,$(SANITIZE)),$(UNDER_SANITIZERS)) $(PY) tests/fuzz/run.py --target $(TARGET) \
		--inputs $(INPUTS) --seed $(SEED) $(ARGS)

# ARGS="--kills 100 --states 1000 --flips 1000 --only kills", FUZZ_INPUTS=1000: less of it.
FUZZ_INPUTS ?= 1000000
soak: $(VENV)/.with-test $(VENV)/.built java
	@$(call with-java,soak: what needs Spark,$(SPARK)/.with-spark-test)
	$(SAY) 'soak: the long tests'
	@SPARK_PYTHON=$(CURDIR)/$(SPARK)/bin/python $(PY) tests/soak.py $(ARGS)
	@$(MAKE) --no-print-directory fuzz INPUTS=$(FUZZ_INPUTS) ARGS=

bench: $(VENV)/.with-bench $(VENV)/.built
	$(SAY) 'bench: ours and peers in turn, about a quarter of an hour and 8 GB below TMPDIR'
	@mkdir -p benchmarks/results && rm -f benchmarks/results/latest.*
	@$(PY) -m pytest benchmarks -q --benchmark-quiet --benchmark-json=benchmarks/results/latest.json $(ARGS); \
		status=$$?; test ! -s benchmarks/results/latest.json || $(PY) benchmarks/report.py; exit $$status

# The other commit is compiled below build/before, which takes some minutes; a second run finds it there.
COMMIT ?=
ROUNDS ?= 3
bench-before: $(VENV)/.with-bench $(VENV)/.built
	$(SAY) 'bench-before: another commit and this one, in turn'
	@$(PY) -m benchmarks.before '$(COMMIT)' '$(ROUNDS)' $(ARGS)

# About half an hour with a real Kafka beside it; ARGS="--quick" is to see that everything runs.
bench-spark: $(VENV)/.built java
	@$(call with-java,bench-spark: all of it,bench-with-java)

bench-with-java: $(SPARK)/.with-spark-kafka
	$(SAY) 'bench-spark: ours, Kafka and its connector, Parquet and Arrow in turn'
	@$(SPARK)/bin/python -m benchmarks.spark $(ARGS)

# Some ten minutes with a real Kafka beside it, which make interop has fetched, or this does.
bench-clients: $(VENV)/.with-bench $(VENV)/.built
	$(SAY) 'bench-clients: ours, confluent-kafka and aiokafka on a real Kafka, in turn'
	@$(PY) -m tests.interop.broker
	@$(PY) -m tests.interop.broker $(PY) -m benchmarks.clients --bootstrap BOOTSTRAP $(ARGS)
	@$(PY) -m benchmarks.clients.tls $(ARGS)

# The same, for brokers: ours and a real Kafka under the same requests.
bench-brokers: $(VENV)/.with-bench $(VENV)/.built
	$(SAY) 'bench-brokers: logstore serve and a real Kafka, in turn'
	@$(PY) -m tests.interop.broker
	@$(PY) -m benchmarks.brokers $(ARGS)

rows: $(VENV)/.made
	@$(PY) tests/rows.py $(ARGS)

build: $(VENV)/.with-release
	$(SAY) 'build: sdist, and the wheel from the sdist'
	@rm -rf dist
	@$(PY) -m build --no-isolation --outdir dist . >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@ls -1 dist

# About six minutes. Pythons are found on PATH and below pyenv; ARGS="--out DIRECTORY": elsewhere than in dist/.
release: $(VENV)/.with-release
	$(SAY) 'release: from the last commit to what may be published'
	@$(PY) -m release $(ARGS)

changelog: $(VENV)/.with-lint
	@$(PY) -m release.news $(VERSION)

docs: $(VENV)/.with-docs $(VENV)/.built
	$(SAY) 'docs: Sphinx, every warning is an error'
	@rm -rf build/docs
	@$(PY) -m sphinx --quiet --fail-on-warning --keep-going --nitpicky -b html docs build/docs
	@echo 'build/docs/index.html'

clean:
	@rm -rf $(VENV) $(SPARK) $(SPARK_NEXT) build dist demo-data demo-data-spark demo-data-cluster demo-data-replicated benchmarks/results .benchmarks
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find src -name '*.so' -exec rm -f {} +
	@find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# --- the environment -------------------------------------------------------------------------

# Python with venv and the headers that an extension needs: a distribution may ship without either.
PROBE := import ensurepip, os, sys, sysconfig, venv; \
	header = os.path.join(sysconfig.get_path("include"), "Python.h"); \
	sys.exit(sys.version_info < (3, 11) or not os.path.exists(header))

$(VENV)/.made:
	@for candidate in $(PYTHON); do \
		if "$$candidate" -c '$(PROBE)' 2>/dev/null; then \
			printf '==> %s\n' "environment: .venv with $$("$$candidate" --version)"; \
			rm -rf $(VENV) && "$$candidate" -m venv $(VENV) && touch $@; exit; \
		fi; \
	done; \
	echo 'No usable Python found. Tried: $(PYTHON).' >&2; \
	echo 'Needed: version 3.11 or newer, with venv and the C headers (on Debian and Ubuntu:' >&2; \
	echo 'apt install python3-venv python3-dev). Choose one with: make PYTHON=/path/to/python' >&2; \
	exit 1

$(VENV)/.requires: pyproject.toml $(VENV)/.made
	$(SAY) 'install: what the build needs, and a pip that knows dependency groups'
	@$(PY) -c 'import tomllib; print("pip>=25.1", *tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		>$(VENV)/requires.txt
	@$(PY) $(INSTALL) --requirement $(VENV)/requires.txt
	@touch $@

# The extras that a group of pyproject.toml works with; the others work with the package alone.
EXTRAS_test := [cli,metrics,security,snappy]
EXTRAS_interop := $(EXTRAS_test)
EXTRAS_bench := [snappy]
EXTRAS_spark-test := [spark,cli,security,snappy]
EXTRAS_spark-kafka := $(EXTRAS_spark-test)

# The package itself is installed as links to src/, uncompiled: .built compiles it there.
$(VENV)/.with-%: pyproject.toml setup.py $(VENV)/.requires
	$(SAY) 'install: logstore$(EXTRAS_$*) and the group $*'
	@LOGSTORE_BUILD_EXTENSIONS=0 $(PY) $(INSTALL) --no-build-isolation --editable '.$(EXTRAS_$*)' --group $*
	@touch $@

# One environment for each PySpark that we say works, with the Python of .venv: the compiled modules are the same.
$(SPARK)/.made $(SPARK_NEXT)/.made: %/.made: $(VENV)/.made
	@rm -rf $* && $(PY) -m venv $* && touch $@

$(SPARK)/.with-%: pyproject.toml setup.py $(SPARK)/.made $(VENV)/.requires
	@$(call install-spark,$(SPARK),4.2)

$(SPARK_NEXT)/.with-%: pyproject.toml setup.py $(SPARK_NEXT)/.made $(VENV)/.requires
	@$(call install-spark,$(SPARK_NEXT),4.3)

install-spark = printf '==> %s\n' 'install: $(1) with logstore$(EXTRAS_$*), the group $* and PySpark $(2)'; \
	$(1)/bin/python $(INSTALL) --requirement $(VENV)/requires.txt && LOGSTORE_BUILD_EXTENSIONS=0 \
	$(1)/bin/python $(INSTALL) --no-build-isolation --editable '.$(EXTRAS_$*)' --group $* 'pyspark==$(2).*' && touch $@

# Java is the one thing that pip cannot bring. Root may; without it, a line says what is left out.
LOOK_FOR_JAVA := PYTHONPATH=src $(PY) -m logstore.spark.jvm
APT_INSTALL := DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install

with-java = if java=$$($(LOOK_FOR_JAVA)); then $(MAKE) --no-print-directory $(2); \
	else printf '==> %s\n' "$(1) is left out. $$java"; fi

java: $(VENV)/.built
	@$(LOOK_FOR_JAVA) >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { \
		printf '==> %s\n' 'install: openjdk-17-jre-headless'; { apt-get -q update; \
		$(APT_INSTALL) openjdk-17-jre-headless || $(APT_INSTALL) default-jre-headless; } >$(VENV)/java.log 2>&1 || \
		printf '==> %s\n' 'apt-get could not bring it: see $(VENV)/java.log'; }

$(VENV)/.built: $(SOURCES) $(VENV)/.requires
	$(SAY) 'compile: $(words $(MODULES)) modules, first to C and then by the C compiler'
	@{ $(PY) -u setup.py build_ext --inplace --parallel $(WORKERS); echo $$? >$(VENV)/compile.status; } 2>&1 \
		| $(call show-progress,$(VENV)/compile.log)
	@test "$$(cat $(VENV)/compile.status)" = 0 || { cat $(VENV)/compile.log; exit 1; }
	@grep -i warning: $(VENV)/compile.log || true
	@touch $@

# Write what a build prints to a file, and a line for every eighth module that it has begun.
show-progress = { to_c=0; to_machine=0; while IFS= read -r line; do printf '%s\n' "$$line"; case "$$line" in \
	*Cythonizing*) to_c=$$((to_c + 1)); test $$((to_c % 8)) != 0 || echo "    translated to C: $$to_c" >&3 ;; \
	"building '"*) to_machine=$$((to_machine + 1)); \
		test $$((to_machine % 8)) != 0 || echo "    compiled: $$to_machine" >&3 ;; \
	esac; done; } 3>&1 >$(1)

# A second, throw-away compilation in which every warning of Cython and C is an error.
$(VENV)/.strict: $(SOURCES) $(VENV)/.requires
	$(SAY) 'compile: warnings are errors'
	@LOGSTORE_BUILD_STRICT=1 $(PY) setup.py --quiet build --build-base build/strict build_ext --parallel $(WORKERS) \
		>$(VENV)/strict.log 2>&1 || { cat $(VENV)/strict.log; exit 1; }
	@touch $@

# The package once more, with AddressSanitizer and UndefinedBehaviorSanitizer, beside the ordinary build.
$(VENV)/.sanitized: $(SOURCES) $(shell find src -name '*.py') tests/sanitize/planted.pyx $(VENV)/.requires
	$(SAY) 'compile: with sanitizers'
	@LOGSTORE_BUILD_SANITIZE=1 $(PY) setup.py --quiet build --build-base build/sanitize --build-lib $(SANITIZED) \
		build_ext --parallel $(WORKERS) >$(VENV)/sanitize.log 2>&1 || { cat $(VENV)/sanitize.log; exit 1; }
	@touch $@

# And with ThreadSanitizer.
$(VENV)/.sanitized-threads: $(SOURCES) $(shell find src -name '*.py') tests/sanitize/planted.pyx $(VENV)/.requires
	$(SAY) 'compile: with ThreadSanitizer'
	@LOGSTORE_BUILD_SANITIZE=thread $(PY) setup.py --quiet build --build-base $(THREADS) --build-lib $(THREADS)/lib \
		build_ext --parallel $(WORKERS) >$(VENV)/threads.log 2>&1 || { cat $(VENV)/threads.log; exit 1; }
	@touch $@
