# `make perf` measures this machine, `make test` runs the project's own tests. Each sets up .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
LOWEST := .venv-lowest
FRAMEWORKS := .venv-frameworks
STORES := .venv-stores

# An NVIDIA GPU that answers decides which TensorFlow is installed, and which tests run; `make perf GPU=0` takes the CPU.
# A driver that hangs must not hang make, and one that fails must not turn a test of GPUs into one of the CPU.
GPU := 0
ifneq ($(filter perf baselines nightly,$(or $(MAKECMDGOALS),perf)),)
NVIDIACTL := /dev/nvidiactl
ifneq ($(origin GPU),command line)
GPU := $(shell timeout 60 nvidia-smi -L 2>/dev/null | grep -c '^GPU')
ifeq ($(GPU),0)
ifneq ($(wildcard $(NVIDIACTL)),)
$(error $(NVIDIACTL) exists, but nvidia-smi shows no GPU: see what `nvidia-smi` and `dmesg | grep -i nvrm` say, or \
  measure the CPU with `make $(or $(MAKECMDGOALS),perf) GPU=0`)
endif
endif
endif
# Its 3 GB of CUDA libraries would be useless beside a TensorFlow for CPUs.
MACHINE := $(shell uname -m)
ifneq ($(filter-out 0,$(GPU)),)
ifneq ($(MACHINE),x86_64)
$(error PyPI has no TensorFlow for GPUs on $(MACHINE): measure the CPU with `make $(or $(MAKECMDGOALS),perf) GPU=0`, or \
  install pytest-tfperf beside a build for GPUs, such as the TensorFlow of NVIDIA's container, and run \
  `pytest perf_tests -m gpu`)
endif
endif
$(info make: measuring $(if $(filter-out 0,$(GPU)),$(GPU) NVIDIA GPU(s),the CPU: no NVIDIA GPU is used))
endif
EXTRA := $(if $(filter-out 0,$(GPU)),gpu,tensorflow)
MARK := $(if $(filter-out 0,$(GPU)),gpu,cpu and not slow)

# Each worker on a GPU takes about half a minute, and all tests an hour or more. So `make perf` alone takes a few of them.
QUICK_ON_GPUS := (test_resnet50_synthetic and (replicated-device-1 or replicated-device-2 or replicated-device-4 or \
  replicated-device-8 or parameter_server-device-1)) or (test_bert_base and device-mixed_float16-1)
ifneq ($(filter perf,$(or $(MAKECMDGOALS),perf)),)
ifneq ($(filter-out 0,$(GPU)),)
ifndef ARGS
$(info make: a quick selection of perf_tests, about 5 minutes; all of them: make perf ARGS=-v)
SELECTION := -k "$(QUICK_ON_GPUS)"
endif
endif
endif

# Into the environment of this Python. .ci/run has uv do it, in a fifth of pip's time; uv does not read pip's settings.
# The pip that venv brings may be older than 25.1, the first that knows --group, so the pinned one replaces it.
pip = $(1) -m pip install --quiet --disable-pip-version-check
install = $(if $(UV),$(UV) pip install --quiet --python $(1),$(call pip,$(1)) -c constraints.txt pip && $(call pip,$(1)))
# The package's extras that `make test` needs.
TESTED_EXTRAS := data,pandas,postgres,sharing,tensorflow

# Python and pytest keep what they compiled, whatever the environment says: tests start some hundred processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: perf baselines test test-slow test-all test-lowest test-services test-stores test-nodes \
  test-frameworks test-install test-readme mutants environment-of-ci horovod lint docs check clean

perf: $(VENV)/.installed-$(EXTRA)
	$(PYTEST) perf_tests -m "$(MARK)" $(SELECTION) $(ARGS)

baselines: $(VENV)/.installed-$(EXTRA)
	$(PYTEST) perf_tests -m "$(MARK)" --update-baselines $(ARGS)

# The nightly gate of this machine, once `make baselines` has recorded its baselines and they are committed.
NIGHTLY := build/nightly
nightly: $(VENV)/.installed-$(EXTRA)
	mkdir -p $(NIGHTLY)
	$(BIN)/tfperf doctor || true # the session itself discards disturbed runs
	$(BIN)/tfperf reference create || true # without it, slowdowns are confirmed against the baselines alone
	$(PYTEST) perf_tests -m "$(MARK)" --tfperf-require-baseline --continue-on-collection-errors \
	  --junitxml=$(NIGHTLY)/throughput.xml --tfperf-html=$(NIGHTLY)/throughput.html $(ARGS)

# What a contributor runs before each commit: under 5 minutes on two cores, once everything is installed.
check: lint test

# What takes longest comes first, so that all processes end together: pytest would order overlapping folders by name.
FIRST := $(addprefix tests/,features training session programs project workers revisions)
REST := $(filter-out $(FIRST) $(addprefix tests/,nodes services data helpers __pycache__),$(patsubst %/,%,$(wildcard tests/*/)))
test: $(VENV)/.installed-dev
	$(PYTEST) $(FIRST) $(REST) -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# Sessions whose workers train, the deepest models, XLA, repeated simulations: CI runs them, `make test` does not.
test-slow: $(VENV)/.installed-dev
	$(PYTEST) $(FIRST) $(REST) -m slow -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# Both in one call: one end at which processes wait for the last one, and module fixtures that are made once.
test-all: $(VENV)/.installed-dev
	$(PYTEST) $(FIRST) $(REST) -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# The lowest versions that pyproject.toml declares, in an environment of their own: what knows pytest, and real training.
LOWEST_TESTS := $(addprefix tests/session/test_,what_a_terminal_shows.py outcomes.py with_pytest_benchmark.py \
  progress_line.py smoke.py collecting.py session.py settings.py) $(addprefix tests/,core judging bench programs revisions workers \
  hardware stores reports console features/page features/explain features/replay)
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -c tests/pytest-8.ini --rootdir . $(LOWEST_TESTS) -n 2 --dist loadfile \
	  --no-loadscope-reorder $(ARGS)

# With PostgreSQL, Chromium, git over https and ssh, and the CI examples; what is not installed is skipped with the reason.
test-services: $(VENV)/.installed-dev
	$(PYTEST) tests/services -n 2 --dist loadfile $(ARGS)

# Object stores and SFTP, in an environment on top of .venv: boto3 and moto are 80 MB that no other test needs.
test-stores: $(STORES)/.installed
	$(STORES)/bin/python -m pytest tests/services/sharing/test_object_stores.py $(ARGS)

# Training in several processes; what is not installed is skipped with the reason. Most of it waits for time-outs.
test-nodes: $(VENV)/.installed-dev
	$(PYTEST) tests/nodes -n 4 --dist loadfile $(ARGS)

# PyTorch, and what is built on it, measured by steps. An environment on top of .venv keeps the 30 packages that these
# bring, a plugin of pytest among them, from all other tests.
test-frameworks: $(FRAMEWORKS)/.installed
	$(FRAMEWORKS)/bin/python -m pytest tests/programs/test_probed_frameworks.py -n 2 $(ARGS)

# The files of dist/ as strangers install them: by pip, by uv, under each Python that can be had, beside each framework.
test-install: dist
	$(BIN)/hadolint Dockerfile
	$(BIN)/python -m tools.install_check dist

# README, typed from its first line to its first red test, with PyTorch and with Keras, on a machine that does nothing else.
test-readme: dist
	$(BIN)/python -m tools.install_check dist readme

# Changes of the package that a test should notice: those of meaning, which tests/changes_of_meaning.toml lists, and small
# mechanical ones. `make mutants MUTANTS=judging/thresholds.py` tries a part of the package, SAMPLE=150 some of all, and
# CHANGED=main the lines that the branch changes. tests/survivors.toml names mutants that no test notices, and why.
mutants: $(VENV)/.installed-mutants
	$(BIN)/python -m tools.mutants $(MUTANTS) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(CHANGED),--changed $(CHANGED))

# Horovod has no wheel for today's TensorFlow: builds one, or takes the one that was built before.
horovod: $(VENV)/.installed-dev
	tools/build_horovod.sh $(BIN)/python

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/entered.py

# The documentation site, in build/site: no warning, no link that leads nowhere, nothing loaded from another host.
docs: $(VENV)/.installed-docs
	rm -rf build/site
	$(BIN)/python -m sphinx --fail-on-warning --quiet --fresh-env -c tools/site -d build/doctrees . build/site
# Draws docs/pictures anew, with tmux, Chromium and PyTorch: tests say which picture is no longer what the program shows.
pictures: $(VENV)/.installed-pictures
	$(BIN)/python -m tools.pictures

.PHONY: lint-ci dist release-notes debian-packages nightly pictures
# The workflows for GitHub: ours, and those that `tfperf init` writes. No check asks the network.
lint-ci: $(VENV)/.installed-ci
	rm -rf build/init && mkdir -p build/init
	$(BIN)/tfperf init build/init --ci=github >/dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/actionlint .github/workflows/*.yml build/init/.github/workflows/*.yml
	$(BIN)/zizmor --quiet --offline .github action.yml build/init/.github/workflows/*.yml

# The files of a release, checked as an index checks them.
dist: $(VENV)/.installed-release
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

# The text of a tag's release on GitHub: `make release-notes TAG=v0.1.0`, which has to be the version in dist/.
release-notes: dist
	mkdir -p build
	$(BIN)/python tools/changelog_section.py "$$TAG" > build/release-notes.md

# What the tests of several nodes and of services need of Debian. Only root may install it.
debian-packages:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openmpi-bin slurm-wlm munge iproute2 cmake g++ postgresql \
	  chromium openssh-server tmux >/dev/null

$(VENV)/bin/python:
	@$(PYTHON) -V >/dev/null 2>&1 || \
	  { echo "there is no Python that runs at $(PYTHON); pytest-tfperf needs 3.11 or newer, try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pytest-tfperf needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,$(BIN)/python) -c constraints.txt -e '.[$(TESTED_EXTRAS)]' --group dev
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,$(BIN)/python) -c constraints.txt -e . --group docs
	@touch $@

$(addprefix $(VENV)/.installed-,ci mutants pictures release): $(VENV)/.installed-%: $(VENV)/.installed-dev
	$(call install,$(BIN)/python) -c constraints.txt --group $*
	@touch $@

# All of these at once, and what more .ci/run tests: one resolution instead of six.
GROUPS_OF_CI := dev ci docs mutants pictures release
environment-of-ci: | $(VENV)/bin/python
	$(call install,$(BIN)/python) -c constraints.txt -e '.[$(TESTED_EXTRAS),profile,ray]' \
	  $(addprefix --group ,$(GROUPS_OF_CI))
	@touch $(addprefix $(VENV)/.installed-,$(GROUPS_OF_CI))

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "the lowest versions are those of Python 3.11 to 3.13; try: make PYTHON=python3.13 test-lowest"; exit 1; }
	$(PYTHON) -m venv $(LOWEST)
	$(call install,$(LOWEST)/bin/python) -c constraints-lowest.txt -e '.[$(TESTED_EXTRAS)]' --group dev
	@touch $@

# Environments on top of .venv: pip leaves out what that has, PyTorch among it; uv would not see it.
$(FRAMEWORKS)/.installed: ADDED := -c constraints.txt torch accelerate==1.15.0 lightning==2.6.6 transformers==5.24.0
# boto3 has no version for the dateutil of constraints.txt.
$(STORES)/.installed: ADDED := flask==3.1.3 flask-cors==6.0.5 moto==5.2.5 paramiko==5.1.0 s3fs==2026.9.0
$(FRAMEWORKS)/.installed $(STORES)/.installed: constraints.txt | $(VENV)/.installed-dev
	$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  >"$$(echo $(@D)/lib/python*/site-packages)/base.pth"
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(ADDED)
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "make: installing TensorFlow$(if $(filter gpu,$*), and CUDA's libraries: about 3 GB to download)"
	$(call install,$(BIN)/python) -c constraints.txt -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(FRAMEWORKS) $(STORES) build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
