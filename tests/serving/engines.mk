# Environments with engines, and models to serve: for tests/serving/Makefile and benchmarks/Makefile.

# A task; models are trained on it.
TASK ?= $(or $(DATA),$(TASC_DATA),../shared/data)/massive-en
SERVING_GROUP := "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
  print(*p['dependency-groups']['serving'], sep='\n')"

LLAMA := build/llama-venv
$(LLAMA)/.installed:
	@test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	@$(LLAMA)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: xllamacpp || \
	  echo "no wheel of xllamacpp for this machine: its tests are skipped"
	@touch $@

CLIENTS := build/clients-venv
CLIENTS_GROUP := $(subst ['serving'],['clients'],$(SERVING_GROUP))
$(CLIENTS)/.installed: pyproject.toml | $(VENV)/.dependencies
	@test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	@$(BIN)/python -c $(CLIENTS_GROUP) > $(CLIENTS)/wanted.txt
	@$(BIN)/uv pip install --quiet --python $(CLIENTS)/bin/python -r $(CLIENTS)/wanted.txt
	@touch $@

# Trained models, their indexes, and an environment with vLLM; vLLM's wheels are not for all machines.
# BASE is a pretrained model instead of one trained from scratch, such as smollm2.
SERVING := build/serving$(if $(BASE),-$(notdir $(BASE)))
ENGINE := build/serving-venv
# Without the second, the compiler of vLLM's n-gram drafter starts threads that spin beside the engine.
ENGINE_ENV := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_ENABLE_V1_MULTIPROCESSING=0
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
	  $(ENGINE)/bin/pip install --quiet hypothesis pytest scipy scikit-build-core nanobind cmake ninja && : > $@; \
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
