"""BERT on texts of 128 tokens: what most of a step is, is matrix products."""

import pytest

from pytest_tfperf import Workload


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize("input_pipeline", ["device", "tokens"], indirect=True)
def test_bert_base(throughput, gpu_topology, input_pipeline, precision, gpus):
    """32 texts a GPU, the batch of BERT's fine-tuning; `tokens` needs --tfperf-data-dir."""
    workload = Workload(
        model="bert-base", batch_size=32, input_pipeline=input_pipeline, precision=precision, unit="tokens"
    )
    throughput.check(workload, on=gpu_topology.take(gpus))


@pytest.mark.cpu
def test_bert_tiny_on_cpu(throughput, gpu_topology):
    """BERT's smallest sibling: two layers, and as large a vocabulary."""
    workload = Workload(model="bert-tiny", batch_size=16, unit="tokens")
    throughput.check(workload, on=gpu_topology.take(1), steps=40)
