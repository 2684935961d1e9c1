#!/usr/bin/env bash
# What is run on one GPU that can be had for 15 minutes in all, without a network, in calls of at most 10 minutes that
# carry at most 64 MiB. CONTRIBUTING.md says how; a test runs call `one` with the stand-in for NVML.
#
#     tools/gpu_lease.sh wheels      # beforehand: packages that the machine lacks, in .lease/1
#     tools/gpu_lease.sh one         # there, with .lease/1: the product on a PyTorch program
#     tools/gpu_lease.sh pack        # beforehand: TensorFlow for one architecture, in .lease/aa to .lease/ae
#     tools/gpu_lease.sh part        # there, once for each of them
#     tools/gpu_lease.sh tensorflow  # there: unpacks them; first kernels, windows, memory
#     tools/gpu_lease.sh --list      # all steps: seconds at most, what each settles, and what its log must have
#
# Variables: OUT, the caller's folder of results, gets one archive a call; P, the Python (python3); ONLY, some steps;
# SCALE, a factor for the probes' times; PATIENCE, a factor for the seconds that steps may take;
# STAND_IN, set by the tests, where a process that sleeps stands for a GPU's.
set -u
[ "${1:-}" = --list ] && LIST=1 || LIST=
RESULTS=${OUT:-} P=${P:-python3} WORK=$(mktemp -d) UNEXPECTED=0 ROOT=$PWD
[[ $P != */* || $P == /* ]] || P=$PWD/$P # steps change the folder
unset OUT # ours must not be the programs'
trap 'rm -rf "$WORK"' EXIT
export WORK ROOT PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL=1 PYTHONPATH="$PWD:$WORK/site${PYTHONPATH:+:$PYTHONPATH}"
PROBE="$P tools/gpu_probes.py" PYTEST="$P -m pytest"
"$P" -c 'import importlib.metadata as m; m.distribution("pytest-tfperf")' 2>/dev/null ||
  PYTEST="$PYTEST -p pytest_tfperf.plugin"

step() { # name, seconds at most, exit statuses, what it settles, a regular expression for a line of its log, the command
  local name=$1 limit=$2 statuses=$3 settles=$4 wanted=$5 log=$WORK/$1.log began=$SECONDS status verdict=ok
  shift 5
  if [ "$LIST" ]; then
    printf '%-10s %-9s %4d s  %s\n%26sexpected: status %s and /%s/\n' "$CALL" "$name" "$limit" "$settles" '' "$statuses" "$wanted"
    return
  fi
  [[ " ${ONLY:-$name} " == *" $name "* ]] || return 0
  timeout --kill-after=5 $((limit * ${PATIENCE:-1})) bash -c "$*" >"$log" 2>&1
  status=$?
  [[ " ${statuses//|/ } " == *" $status "* ]] || verdict=UNEXPECTED
  grep -Eq -- "$wanted" "$log" || verdict=UNEXPECTED
  [ $verdict = ok ] || UNEXPECTED=1
  printf '%-10s %-9s %3d s  status %3d  %s\n' "$verdict" "$name" $((SECONDS - began)) $status \
    "$(grep -E -- "$wanted" "$log" | head -1 | cut -c1-300)"
  [ $verdict = ok ] || tail -n 40 "$log" | sed 's/^/    /'
}

one() {
  CALL=one
  step facts 40 0 "versions, CUDA's libraries for the other calls, pid:[4026531836]: NVML's process ids are ours" '^facts: ' \
    "$PROBE facts; nvidia-smi -q; nvidia-smi topo -m; ulimit -a; true"
  step record 20 0 "NVML's answers, for the tests; which questions this driver refuses" '^record: ' \
    "$PROBE record $WORK/nvml.txt"
  step doctor 60 "0|8" "CUDA starts; PyTorch and JAX see the GPU" '^ok +CUDA +cuInit succeeds' \
    "$P -m pytest_tfperf.cli topology; $P -m pytest_tfperf.cli doctor --dir=$WORK/history"
  step cold 80 0 "how much faster a cold GPU is, and how long it takes to get warm" '^cold: [0-9]' "$PROBE cold"
  step own 25 0 "how often NVML renews its figures, and how long our last process's use shows" '^own: [0-9]' "$PROBE own"
  step foreign 20 0 "what NVML lists of a process that uses the GPU, in this process namespace" '^foreign: [0-9]' \
    "$PROBE foreign"
  step held 25 0 "memory of a killed process is free before the next one starts" '^held: [0-9]' "$PROBE held"

  local loop="$WORK/t/test_loop.py" seconds="600.$$" # a number that no other process has
  mkdir -p "$WORK/t"
  cat >"$loop" <<TEST
import sys, pytest
from pytest_tfperf import Command, Reads

@pytest.mark.gpu
def test_loop(throughput, gpu_topology):
    command = [sys.executable, "$ROOT/tools/gpu_loop.py", "$seconds"]
    reads = Reads(pattern=r"throughput: (?P<rate>[\d.]+) images/s")
    program = Command(command, name="loop", unit="images/s", reads=reads)
    throughput.check(program, on=gpu_topology.take(1), steps=8, also=["peak_memory"])
TEST
  local session="$PYTEST -p no:cacheprovider -q --tfperf-dir=$WORK/history -o tfperf_busy=1 test_loop.py" at="cd $WORK/t"
  step baseline 110 0 "recording five runs of a program, once the GPU is warm" '^1 passed' \
    "$at && $session --update-baselines && cat baselines/*.csv"
  step loss 100 1 "a loss of 10 % is confirmed by fresh runs" 'REGRESSED' "$at && $session --tfperf-inject-slowdown=0.1"
  step again 30 0 "another session is where the row is: how far sessions differ" '^1 passed' "$at && $session -rA"
  # A run that is no slower counts although it was disturbed.
  step guard 60 6 "another process on the GPU is named, or in a container its use before the run" \
    'also ran on GPU|other work used' \
    "$P tools/gpu_loop.py 55 >/dev/null & other=\$!; trap 'kill \$other' EXIT; sleep 6; \
     $at && $session --tfperf-inject-slowdown=0.3"
  step kill9 25 0 "after a kill -9 of pytest its program is ended" '^kill9: [1-9][0-9]* before, 0 after' \
    "bash -c '$at && exec $session' & \
     before=0; while [ \$before = 0 ]; do before=\$($PROBE running $seconds); done; \
     kill -KILL \$!; sleep 8; echo \"kill9: \$before before, \$($PROBE running $seconds) after\""
}

tensorflow() {
  CALL=tensorflow
  step import 60 0 "TensorFlow loads CUDA's libraries of the image" '^tf: .*GPU:0' \
    "$P -c 'import tensorflow as tf; print(\"tf:\", tf.__version__, tf.config.list_physical_devices(\"GPU\"))'"
  step kernels 150 0 "the driver compiles TensorFlow's kernels: seconds of the first and the second time" \
    '^kernels: float16 .* GPU:0' "$PROBE kernels"
  step sync 90 0 "windows wait for the GPU: below 0.2 ms are left; closing one of 5 steps costs below 1 %" '^sync: after' \
    "$PROBE sync"
  step alloc 40 0 "whether autotuning's scratch hides the training's own peak of memory" '^alloc: peak' "$PROBE alloc"
  step copies 40 0 "how much of the copies to the GPU the steps hide" '^copies: a step' "$PROBE copies"
}

back() { # one archive: few files come back
  tar -C "$WORK" -czf "$RESULTS/gpu-lease-$1.tgz" --exclude=site --exclude=tf --exclude=lib .
}

library() { find /opt /usr -name "$1" -print -quit 2>/dev/null; }

case ${1:-} in
  --list) one && tensorflow && exit ;;
  wheels)
    "$P" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux2014_x86_64 \
      --dest .lease/1 -c constraints.txt pytest-benchmark py-cpuinfo
    exit ;;
  pack)
    set -e
    get() {
      "$P" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --dest "$WORK" "$@"
    }
    get -c constraints.txt tensorflow keras optree namex astunparse gast google_pasta termcolor
    get -c constraints.txt nvidia-cuda-runtime-cu12
    tree=$WORK/tree
    "$P" -m zipfile -e "$WORK"/tensorflow-*.whl "$tree"
    rm -r "$WORK"/tensorflow-*.whl "$tree/tensorflow/include"
    # A tenth of the size, which a worker does not need.
    rm "$tree/tensorflow/python/profiler/internal/_pywrap_profiler_plugin.so"
    echo 'def __getattr__(name): return None' >"$tree/tensorflow/python/profiler/internal/_pywrap_profiler_plugin.py"
    "$P" -m tools.gpu_architectures --keep=90 "$tree/tensorflow/libtensorflow_cc.so.2"
    for wheel in "$WORK"/*.whl; do "$P" -m zipfile -e "$wheel" "$tree"; done
    mkdir -p .lease
    tar -C "$tree" -cf - . | zstd -T0 -15 --long=27 | split -b 54M - .lease/tf.
    for part in .lease/tf.*; do
      mkdir -p ".lease/${part##*.}"
      mv "$part" ".lease/${part##*.}/part"
    done
    du -sh .lease/*
    exit ;;
esac

[ -d "$RESULTS" ] || { echo "OUT=${RESULTS:-}: give the folder whose files come back" >&2; exit 2; }
case $1 in
  one)
    [ ! -d .lease/1 ] || "$P" -m pip install --quiet --no-index --no-deps --no-compile --target "$WORK/site" .lease/1/*.whl
    one
    back one ;;
  part) cat .lease/??/part >>/tmp/tf.tar.zst && ls -l /tmp/tf.tar.zst ;;
  tensorflow)
    mkdir -p "$WORK/tf" "$WORK/lib"
    zstd -dc --long=27 /tmp/tf.tar.zst | tar -C "$WORK/tf" -xf -
    # cuDNN and NCCL have the same names in the image. CUDA 13's cuBLAS lacks five private functions of CUDA 12's.
    ln -s "$(library libcublas.so.13)" "$WORK/lib/libcublas.so.12"
    ln -s "$(library libcublasLt.so.13)" "$WORK/lib/libcublasLt.so.12"
    ln -s "$(library libcudnn.so.9)" "$(library libnccl.so.2)" "$WORK/tf/nvidia/cuda_runtime/lib/libcudart.so.12" "$WORK/lib/"
    # A CNN calls nothing of these.
    for name in libcufft.so.11 libcusolver.so.11 libcusparse.so.12; do
      echo 'int unused;' | gcc -shared -fPIC -Wl,-soname,$name -x c - -o "$WORK/lib/$name"
    done
    export PYTHONPATH="$PYTHONPATH:$WORK/tf" XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda
    export LD_LIBRARY_PATH="$WORK/lib:$(dirname "$(library libcublasLt.so.13)"):$(dirname "$(library libcudnn.so.9)")"
    export CUDA_CACHE_PATH="$WORK/ComputeCache" CUDA_CACHE_MAXSIZE=4294967296 # what the driver compiles comes back
    tensorflow
    back tensorflow ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
exit $UNEXPECTED
