# The suite for NVIDIA GPUs, with the versions that are pinned: docs/nightly.md has the command that runs it.
# The base has Ubuntu's Python 3.12 and what the driver's libraries need; CUDA's own come from PyPI, as constraints.txt
# pins them, because TensorFlow's image has a cuDNN that its TensorFlow does not take. A release has the image's digest,
# which tools/pin_base_image.sh writes.
FROM nvidia/cuda:12.6.3-base-ubuntu24.04

# Git tells which commit was measured, and checks out others. It refuses a repository of another user, as a mounted one
# may be, unless the repository is trusted. DL3008: Ubuntu deletes the versions that it replaces.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory '*' \
    && python3 -m venv /opt/tfperf \
    && install --directory --mode=1777 /home/tfperf /tfperf
ENV PATH=/opt/tfperf/bin:$PATH

WORKDIR /tfperf
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY pytest_tfperf pytest_tfperf
COPY baselines baselines
COPY docs docs
RUN pip install --no-cache-dir --constraint constraints.txt '.[gpu]'
COPY perf_tests perf_tests

# `docker run --user` may name a user whom the image does not know: their home is writable for all, and keeps CUDA's and
# other caches. Programs such as PyTorch fail where a user has no name.
ENV HOME=/home/tfperf USER=tfperf

# Without a command, the suite of this project is run; docs/nightly.md has the command for a repository of yours.
CMD ["pytest", "perf_tests", "-m", "gpu"]
