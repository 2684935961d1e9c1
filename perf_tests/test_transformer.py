"""BERT on texts of 128 tokens: what most of a step is, is matrix products."""

import pytest

from pytest_tfperf import Workload

LARGE_CARD = 38e9  # bytes, what drivers report of a card of 40 GB or more


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize("input_pipeline", ["device", "tokens"], indirect=True)
def test_bert_base(throughput, gpu_topology, input_pipeline, precision, gpus):
    """32 texts a GPU, the batch of BERT's fine-tuning, and 128 on large cards; `tokens` needs --tfperf-data-dir.

    A step has about 3,200 operations, 250 for each of the 12 layers. So 32 texts measure how fast kernels are launched
    where a GPU needs less than some 10 ms for their products, as an H200 does. Keras' dropout also copies its seed to
    the host in each step, for which the host waits.
    """
    on = gpu_topology.take(gpus)
    is_large = all((gpu.memory_bytes or 0) > LARGE_CARD for gpu in on.gpus)
    workload = Workload(
        model="bert-base",
        batch_size=128 if is_large else 32,
        input_pipeline=input_pipeline,
        precision=precision,
        unit="tokens",
    )
    throughput.check(workload, on=on)


@pytest.mark.cpu
def test_bert_tiny_on_cpu(throughput, gpu_topology):
    """BERT's smallest sibling: two layers, and as large a vocabulary."""
    workload = Workload(model="bert-tiny", batch_size=16, unit="tokens")
    throughput.check(workload, on=gpu_topology.take(1), steps=40)
