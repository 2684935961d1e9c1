# `make perf` measures this machine, `make test` runs the project's own tests. Each sets up .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
LOWEST := .venv-lowest

# An NVIDIA GPU that answers decides which TensorFlow is installed, and which tests run. A driver that hangs must not hang
# make, and what runs on no GPU need not ask.
ifneq ($(filter-out test test-lowest test-services test-nodes horovod otava lint clean,$(or $(MAKECMDGOALS),perf)),)
GPU := $(shell timeout 60 nvidia-smi -L 2>/dev/null | grep -c '^GPU')
endif
EXTRA := $(if $(filter-out 0,$(GPU)),gpu,tensorflow)
MARK := $(if $(filter-out 0,$(GPU)),gpu,cpu and not slow)

# Python and pytest keep what they compiled, whatever the environment says: tests start some 200 processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: perf baselines test test-lowest test-services test-nodes horovod otava lint clean

perf: $(VENV)/.installed-$(EXTRA)
	$(PYTEST) perf_tests -m "$(MARK)" $(ARGS)

baselines: $(VENV)/.installed-$(EXTRA)
	$(PYTEST) perf_tests -m "$(MARK)" --update-baselines $(ARGS)

# What takes longest comes first, so that all processes end together: pytest would order overlapping folders by name.
FIRST := $(addprefix tests/,programs session features training)
REST := $(filter-out $(FIRST) $(addprefix tests/,nodes services data helpers __pycache__),$(patsubst %/,%,$(wildcard tests/*/)))
test: $(VENV)/.installed-dev
	$(PYTEST) $(FIRST) $(REST) -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

# The lowest versions that pyproject.toml declares, in an environment of their own: what knows pytest, and real training.
LOWEST_TESTS := $(addprefix tests/session/test_,what_a_terminal_shows.py outcomes.py with_pytest_benchmark.py \
  progress_line.py smoke.py collecting.py session.py settings.py) $(addprefix tests/,core judging bench programs workers \
  hardware stores reports console features/page features/explain features/replay)
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -c tests/pytest-8.ini --rootdir . $(LOWEST_TESTS) -n 2 --dist loadfile \
	  --no-loadscope-reorder $(ARGS)

# With PostgreSQL, Chromium, Apache Otava and the CI examples; what is not installed is skipped with the reason.
test-services: $(VENV)/.installed-dev
	$(PYTEST) tests/services -n 2 --dist loadfile $(ARGS)

# Training in several processes; what is not installed is skipped with the reason. Most of it waits for time-outs.
test-nodes: $(VENV)/.installed-dev
	$(PYTEST) tests/nodes -n 3 --dist loadfile $(ARGS)

# Horovod has no wheel for today's TensorFlow: builds one, or takes the one that was built before.
horovod: $(VENV)/.installed-dev
	tools/build_horovod.sh $(BIN)/python

# Apache Otava reads our export in a test; it has an environment of its own, because it pins an older NumPy.
otava:
	$(PYTHON) -m venv .venv-otava
	.venv-otava/bin/python -m pip install --quiet --disable-pip-version-check apache-otava==0.8.0

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	@$(PYTHON) -V >/dev/null 2>&1 || \
	  { echo "there is no Python that runs at $(PYTHON); pytest-tfperf needs 3.11 or newer, try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pytest-tfperf needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,tensorflow]'
	@touch $@

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "TensorFlow 2.16 needs Python 3.11 or 3.12 here; try: make PYTHON=python3.12 test-lowest"; exit 1; }
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[dev,tensorflow]'
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) $(LOWEST) .venv-otava build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
