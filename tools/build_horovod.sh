#!/usr/bin/env bash
# Builds Horovod for the TensorFlow of a Python, and installs it there: tools/build_horovod.sh [PYTHON]
#
# Horovod 0.28.1 is the last release, and one of its files does not compile with TensorFlow 2.21: that of its XLA
# operations, which are off by default. The wheel is kept in ~/.cache/pytest-tfperf and built once for each TensorFlow
# and Python. It needs cmake and g++, and takes some minutes. HOROVOD_GPU_OPERATIONS=NCCL, for one, is passed on to
# Horovod's build.
set -euo pipefail

PYTHON=$(realpath --no-symlinks "$(command -v "${1:-python3}")")
VERSION=0.28.1
TENSORFLOW=$("$PYTHON" -c 'from importlib.metadata import version; print(version("tensorflow"))')
PYTHON_VERSION=$("$PYTHON" -c 'import sys; print(*sys.version_info[:2], sep=".")')
NAME="horovod-$VERSION-tensorflow-$TENSORFLOW-python-$PYTHON_VERSION${HOROVOD_GPU_OPERATIONS:+-$HOROVOD_GPU_OPERATIONS}"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/pytest-tfperf/$NAME${HOROVOD_WITH_MPI:+-mpi}"

for tool in cmake g++; do
  command -v "$tool" >/dev/null || { echo "Horovod can't be built: there is no $tool (Debian: apt install cmake g++)"; exit 1; }
done

PIP=("$PYTHON" -m pip --quiet --disable-pip-version-check)
"${PIP[@]}" install 'setuptools<81' wheel packaging cffi cloudpickle psutil pyyaml

# A subshell, so that the folder changes for the build only: Python would import an unbuilt Horovod from its source.
build() (
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  # pip asks the package for its dependencies, which fails where torch is not installed; the archive is there by then.
  "${PIP[@]}" download --no-deps --no-binary :all: "horovod==$VERSION" || [ -f "horovod-$VERSION.tar.gz" ]
  tar xf "horovod-$VERSION.tar.gz"
  cd "horovod-$VERSION"
  sed -i '/xla_mpi_ops.cc/d' horovod/tensorflow/CMakeLists.txt
  export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1
  [ -n "${HOROVOD_WITH_MPI:-}" ] || export HOROVOD_WITHOUT_MPI=1
  "$PYTHON" setup.py --quiet bdist_wheel >build.log 2>&1 || { tail -n 40 build.log; exit 1; }
  mkdir -p "$CACHE"
  cp dist/*.whl "$CACHE"
)

if ! ls "$CACHE"/*.whl >/dev/null 2>&1; then
  build
fi
"${PIP[@]}" install --no-deps "$CACHE"/*.whl
OUTPUT=$("$PYTHON" -c 'import horovod.tensorflow' 2>&1) || { echo "$OUTPUT"; exit 1; }
echo "Horovod $VERSION for TensorFlow $TENSORFLOW is installed"
