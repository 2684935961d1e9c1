#!/usr/bin/env bash
# The first half hour on a GPU: what to run, what it should print, and what that settles. For a machine with one GPU and
# no network. Each step takes at most ten minutes, keeps its log, and says whether the log has what was expected.
#
#     tools/gpu_rehearsal.sh                    # all steps
#     tools/gpu_rehearsal.sh driver placement   # some of them
#     tools/gpu_rehearsal.sh --list             # what each step expects
#
# Variables: P, the Python that has TensorFlow (default .venv/bin/python); OUT, the folder of logs and baselines (default
# gpu-rehearsal), to be committed or sent; ON=cpu rehearses the rehearsal on a machine without a GPU.
set -u
P=${P:-.venv/bin/python} OUT=${OUT:-gpu-rehearsal} ON=${ON:-gpu}
# A Python that has TensorFlow and pytest, but not this package, as on a machine without a network.
"$P" -c 'import importlib.metadata as m; m.distribution("pytest-tfperf")' 2>/dev/null ||
  export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTEST_ADDOPTS="-p pytest_tfperf.plugin"

SESSION="$P -m pytest --tfperf-dir=$OUT/history -o tfperf_baselines=$OUT/baselines"
if [ "$ON" = gpu ]; then
  ONE="perf_tests/test_multigpu.py -m gpu -k replicated-device-1"
  TWO="perf_tests/test_multigpu.py -m gpu -k replicated-device-2"
  ALL="-m 'gpu and not multinode'"
else
  ONE="$OUT/test_small.py -m cpu" TWO=$ONE ALL="-m cpu -k trivial"
fi
SMALL='import pytest
from pytest_tfperf import Workload

@pytest.mark.cpu
def test_small(throughput, gpu_topology):
    throughput.check(Workload(model="trivial", batch_size=8), on=gpu_topology.take(1), steps=20, warmup_steps=2)'
BUSY='import tensorflow as tf
a = tf.random.normal((4096, 4096))
while True: a = tf.linalg.l2_normalize(a @ a)'
OPERATIONS='import time, tensorflow as tf
print(tf.config.list_physical_devices())
for dtype in "float32", "float16", "bfloat16":
    began = time.time()
    print(dtype, (tf.constant([1.0, 2.0]) + tf.cast(tf.ones(2, dtype), "float32")).numpy(), f"{time.time() - began:.1f} s")
print("product", tf.linalg.matmul(tf.ones((512, 512)), tf.ones((512, 512)))[0, 0].numpy())'
XLA='import tensorflow as tf
print("xla", tf.function(lambda x: tf.reduce_sum(tf.tanh(x) * x), jit_compile=True)(tf.ones(1000)).numpy())'

step() { # name, what it settles, a regular expression that its log should have, the command
  local name=$1 settles=$2 wanted=$3 log began status
  shift 3
  if [ "${LIST:-}" ]; then printf '%-12s %s\n%13sexpected: %s\n' "$name" "$settles" '' "$wanted"; return; fi
  [ ${#CHOSEN[@]} -eq 0 ] || [[ " ${CHOSEN[*]} " == *" $name "* ]] || return 0
  log=$OUT/$name.log began=$SECONDS
  timeout --kill-after=10 600 bash -c "$*" >"$log" 2>&1
  status=$?
  status="as expected (exit status $status)"
  grep -Eq -- "$wanted" "$log" || { UNEXPECTED=1 status="NOT $status"; }
  printf '%-12s %4d s  %s  %s\n' "$name" $((SECONDS - began)) "$status" "$log" | tee -a "$OUT/summary.txt"
}

[ "${1:-}" = --list ] && { LIST=1; shift; }
CHOSEN=("$@") UNEXPECTED=0
[ "${LIST:-}" ] || { mkdir -p "$OUT/baselines"; echo "$SMALL" >"$OUT/test_small.py"; }

step driver "driver, compute mode, MIG; [4026531836]: NVML's process ids are ours" '4026531836' \
  "nvidia-smi --query-gpu=name,driver_version,compute_mode,mig.mode.current,memory.total --format=csv; nvidia-smi; readlink /proc/self/ns/pid; df -h /dev/shm"
step topology "names, links, peak rates of FP32 and memory; no traceback" '^machine|TFLOP/s|cores' "$P -m pytest_tfperf.cli topology"
step doctor "code for this GPU, compute mode, clocks, ECC, other processes" '(F|f)it to measure' "$P -m pytest_tfperf.cli doctor"
step placement "the driver compiles TensorFlow's kernels: how long that takes the first time" 'product 512.0' \
  "time $P -c '$OPERATIONS'; time $P -c '$OPERATIONS'"
step xla "XLA compiles for this GPU (Blackwell: it aborts)" 'xla [0-9]' "$P -c '$XLA'"
step first "how long one worker takes; which lines of its log are new" '1 (passed|measured)' "$SESSION $ONE --tfperf-smoke --durations=5 -rA"
step smoke "every model and pipeline compiles; tests of more GPUs are skipped" ' in [0-9.]+s' "$SESSION perf_tests $ALL --tfperf-smoke --durations=20"
step short "the rate of 100 steps, to be compared with the next step's" 'images/s' "TFPERF_STEPS=100 $SESSION $ONE -rA"
step long "the rate of 2,000 steps: within 3 % of the last step's, or windows do not wait for the GPU" 'images/s' \
  "TFPERF_STEPS=2000 TFPERF_MAX_TIME=120 $SESSION $ONE -rA"
step again "three fresh sessions: how far runs differ, clocks and temperature of each" 'images/s' \
  "for i in 1 2 3; do $SESSION $ONE; done; $P -m pytest_tfperf.cli history --dir=$OUT/history"
step guard "another process on the GPU is named, or in a container its use before the run" 'disturbed|also ran on|other work used' \
  "$P -c '$BUSY' & other=\$!; sleep 30; $SESSION $ONE; kill \$other"
step record "recording five runs and a trace with kernels" '[.]csv' \
  "$SESSION $ONE --update-baselines -o tfperf_busy=1 --tfperf-profile-on-regression=$OUT/traces; ls -R $OUT/traces $OUT/baselines"
step regression "a loss of 10 % fails, and its message names what slowed" 'REGRESSED|failed' "$SESSION $ONE --tfperf-inject-slowdown=0.1"
step against "pairs of two workers on one GPU: the ratio is about 1; alternating runs mean that memory was short" 'b / a|ratio' \
  "$SESSION $ONE --tfperf-against=$P"
if [ "$ON" = gpu ]; then
  step precision "float16 under 1.5 x float32 means that launches are the limit" 'tokens/s' \
    "$SESSION perf_tests/test_transformer.py -m gpu -k 'device and 1]' -rA"
  step fit "fit keeps up with our loop within 10 %" 'b / a|ratio' "$SESSION perf_tests/test_trainer.py -m gpu"
  step ratios "a healthy machine passes; ratios of other GPUs are warnings" 'passed' "$SESSION perf_tests/test_ratios.py -m gpu -k '1]'"
  step split "a GPU in two parts, with both all-reduces that work there" '1 (passed|measured)' "$SESSION $TWO --tfperf-split-gpu --tfperf-smoke -rA"
fi
step report "one page of all that was measured" 'report.html' "$P -m pytest_tfperf.cli report --dir=$OUT/history --since=1d -o $OUT/report.html"
exit "$UNEXPECTED"
