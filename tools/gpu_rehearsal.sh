#!/usr/bin/env bash
# The first hour on a GPU: what to run, what it should print, and what that settles, in the order of what is lost most if
# it is wrong. For a machine with one GPU and no network. Four calls of about ten minutes each:
#
#     tools/gpu_rehearsal.sh 1                # then 2, 3 and 4
#     tools/gpu_rehearsal.sh doctor guard     # some of the steps
#     tools/gpu_rehearsal.sh --list           # all steps: seconds at most, what each settles, and what its log must have
#
# Variables: P, the Python that has TensorFlow (default .venv/bin/python); OUT, the folder of logs and baselines (default
# gpu-rehearsal), to be committed or sent, also as OUT.tgz; ON=cpu rehearses the rehearsal on a machine without a GPU.
set -u
P=${P:-.venv/bin/python} OUT=${OUT:-gpu-rehearsal} ON=${ON:-gpu} PROBE="$P tools/gpu_probes.py"
# The code that the driver compiles must outlive each call.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$PWD/$OUT/ComputeCache} CUDA_CACHE_MAXSIZE=4294967296 TF_CPP_MIN_LOG_LEVEL=1
# A Python that has TensorFlow and pytest, but not this package, as on a machine without a network. `python file` has the
# file's folder in its path, not this one.
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
"$P" -c 'import importlib.metadata as m; m.distribution("pytest-tfperf")' 2>/dev/null ||
  export PYTEST_ADDOPTS="-p pytest_tfperf.plugin"

SESSION="$P -m pytest --tfperf-dir=$OUT/history -o tfperf_baselines=$OUT/baselines -o tfperf_timeout=500"
if [ "$ON" = gpu ]; then
  ONE="perf_tests/test_multigpu.py -m gpu -k replicated-device-1" ALL="-m 'gpu and not multinode'" LOSS=0.1
else
  ONE="$OUT/test_small.py -m cpu -o tfperf_busy=1" ALL="-m cpu -k trivial" LOSS=0.8
fi
ROW='^[A-Z].*  (resnet50|trivial)-[^ ]+ +1x1 +[0-9]' # an outcome, a workload, its shape and its rate
SMALL='import pytest
from pytest_tfperf import Workload

@pytest.mark.cpu
def test_small(throughput, gpu_topology):
    throughput.check(Workload(model="trivial", batch_size=8), on=gpu_topology.take(1))'
export KERNELS='import time, tensorflow as tf
for gpu in tf.config.list_physical_devices("GPU"): tf.config.experimental.set_memory_growth(gpu, True)
for dtype in "float32", "float16", "bfloat16":
    began = time.time()
    x, w = (tf.cast(tf.random.normal(shape), dtype) for shape in ((64, 56, 56, 64), (3, 3, 64, 64)))
    y = tf.reduce_sum(tf.cast(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), "float32"))
    print("conv", dtype, float(y) > 0, f"{time.time() - began:.1f} s on", y.device)'
export XLA='import tensorflow as tf
print("xla", tf.function(lambda x: tf.reduce_sum(tf.tanh(x) * x), jit_compile=True)(tf.ones(1000)).numpy())'
export BUSY="import sys; sys.argv = ['', '600']; from tools.gpu_probes import BUSY; exec(BUSY)"

step() { # name, seconds at most, exit statuses, what it settles, a regular expression for a line of its log, the command
  local name=$1 limit=$2 statuses=$3 settles=$4 wanted=$5 log=$OUT/$1.log began=$SECONDS status verdict
  shift 5
  if [ "${LIST:-}" ]; then
    printf '%d %-9s %4d s  %s\n%18sexpected: status %s and /%s/\n' "$PART" "$name" "$limit" "$settles" '' "$statuses" "$wanted"
    return
  fi
  [[ " ${CHOSEN[*]} " == *" $name "* || " ${CHOSEN[*]} " == *" $PART "* ]] || return 0
  timeout --kill-after=10 "$limit" bash -c "$*" >"$log" 2>&1
  status=$?
  verdict="as expected (exit status $status)"
  [[ " ${statuses//|/ } " == *" $status "* ]] || verdict="NOT as expected: exit status $status"
  grep -Eq -- "$wanted" "$log" || verdict="NOT as expected: no line has /$wanted/ (exit status $status)"
  ! grep -q '^Traceback' "$log" || verdict="NOT as expected: a traceback (exit status $status)"
  case $verdict in NOT*) UNEXPECTED=1 ;; esac
  printf '%-9s %4d s  %s  %s\n' "$name" $((SECONDS - began)) "$verdict" "$log" | tee -a "$OUT/summary.txt"
}

[ "${1:-}" = --list ] && { LIST=1; shift; }
[ "${LIST:-}" ] || [ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
CHOSEN=("$@") UNEXPECTED=0
[ "${LIST:-}" ] || { mkdir -p "$OUT/baselines"; echo "$SMALL" >"$OUT/test_small.py"; }

PART=1 # Is it a GPU for this TensorFlow, and is a window's time true?
step facts 60 0 "driver, compute mode, MIG; pid:[4026531836]: NVML's process ids are ours" '^pid:\[' \
  "nvidia-smi -q; nvidia-smi topo -m; df -h /dev/shm; ulimit -a; cat /sys/fs/cgroup/cpu.max; $P -m pip list | grep -i 'nvidia\|tensorflow\|keras'; readlink /proc/self/ns/pid"
step record 30 0 "NVML's answers, for the tests; which questions this driver refuses" '^record: ' "$PROBE record $OUT/nvml.txt"
step topology 30 0 "names, links, peak rates of FP32 and memory" '^machine +' "$P -m pytest_tfperf.cli topology"
step doctor 90 "0|8" "code for this GPU, CUDA's libraries, compute mode, clocks, ECC, other processes" '^(F|Not f)it to measure' \
  "$P -m pytest_tfperf.cli doctor"
step kernels 240 0 "the driver compiles TensorFlow's kernels: how long that takes the first and the second time" '^conv bfloat16 True' \
  "for i in 1 2; do time $P -c \"\$KERNELS\"; done"
step xla 60 0 "XLA compiles for this GPU (Blackwell: it aborts)" '^xla [0-9]' "$P -c \"\$XLA\""
step sync 120 0 "windows wait for the GPU: below 0.2 ms are left; closing one of 5 steps costs below 1 %" '^sync: ' "$PROBE sync"
step cadence 60 0 "how long use shows after a worker's end: above 0.65 s our own last worker would look foreign" '^cadence: ' \
  "$PROBE cadence"
step release 60 0 "memory of a killed worker is free before the next one starts" '^release: ' "$PROBE release"

PART=2 # One worker, the same rate by few and by many steps, fresh workers alike, other work seen.
step first 150 0 "how long one worker takes; which lines of its log are new" '^=+ 1 passed' "$SESSION $ONE --tfperf-smoke --durations=5 -rA"
step short 60 0 "the rate of 100 steps, to be compared with the next step's" "$ROW" "TFPERF_STEPS=100 $SESSION $ONE -rA"
step long 90 0 "the rate of many steps: within 3 % of the last step's, or windows do not wait for the GPU" "$ROW" \
  "TFPERF_STEPS=2000 TFPERF_MAX_TIME=30 $SESSION $ONE -rA"
step again 180 0 "three fresh sessions: how far runs differ, clocks and temperature of each" "$ROW" \
  "for i in 1 2 3; do $SESSION $ONE; done; $P -m pytest_tfperf.cli history --dir=$OUT/history"
step guard 120 "0|6" "another process on the GPU is named, or in a container its use before the run" \
  '^  disturbed +[1-9]|also ran on GPU|other work used' \
  "$P -c \"\$BUSY\" & other=\$!; trap 'kill \$other' EXIT; sleep 25; $SESSION ${ONE/ -o tfperf_busy=1/}"
step alloc 60 0 "whether autotuning's scratch hides the training's own peak of memory" '^alloc: ' "$PROBE alloc"

PART=3 # Can it judge: a baseline, a loss of 10 %, a null pair, half precision, copies, fit, a trace.
step baseline 150 0 "recording five runs, and a trace of a few steps more" '^(resnet50|trivial)-.*,1x1,' \
  "$SESSION $ONE --update-baselines -o tfperf_busy=1 --tfperf-profile-on-regression=$OUT/traces && cat $OUT/baselines/*.csv"
step trace 5 0 "what step baseline has traced, for TensorBoard: does it have the GPU's kernels?" '[.]xplane[.]pb$' "find $OUT/traces -type f"
step loss 120 1 "a loss of $LOSS fails, and its message names what slowed" 'REGRESSED' "$SESSION $ONE --tfperf-inject-slowdown=$LOSS"
step against 120 0 "pairs of two workers on one GPU: the ratio is about 1; alternating runs mean that memory was short" 'b / a' \
  "$SESSION $ONE --tfperf-against=$P"
step copies 60 0 "how much of the copies to the GPU the steps hide" '^copies: ' "$PROBE copies"
if [ "$ON" = gpu ]; then
  step half 90 0 "float16 under 1.5 x float32 means that launches are the limit" 'tokens/s' \
    "$SESSION perf_tests/test_transformer.py -m gpu -k 'device and 1]' -rA"
  step fit 90 0 "fit keeps up with our loop within 10 %" 'b / a' "$SESSION perf_tests/test_trainer.py -m gpu"
fi

PART=4 # All models, ratios, a split GPU, and the report.
step smoke 300 0 "every model and pipeline compiles; tests of more GPUs are skipped" '^=.* in [0-9.]+s' \
  "$SESSION perf_tests $ALL --tfperf-smoke --durations=20"
if [ "$ON" = gpu ]; then
  step ratios 120 0 "a healthy machine passes; ratios of other GPUs are warnings" '^=.* passed' "$SESSION perf_tests/test_ratios.py -m gpu -k '1]'"
  step split 90 0 "a GPU in two parts, with both all-reduces that work there" '^=+ 1 passed' \
    "$SESSION perf_tests/test_multigpu.py -m gpu -k replicated-device-2 --tfperf-split-gpu --tfperf-smoke -rA"
fi
step report 30 0 "one page of all that was measured" 'report[.]html' \
  "$P -m pytest_tfperf.cli report --dir=$OUT/history --since=1d -o $OUT/report.html"

[ "${LIST:-}" ] || tar -C "$OUT" -czf "$OUT.tgz" --exclude=ComputeCache .
exit "$UNEXPECTED"
