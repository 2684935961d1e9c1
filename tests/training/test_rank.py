"""A rank's number, from the variables of its starter, and the environment that it trains with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.rank import environment_of, find_rank

WORKERS = {"worker": ["a:1", "b:1", "c:1"]}


def tf_config(cluster: Any, kind: str = "worker", index: Any = 0, **more: Any) -> dict[str, str]:
    """An environment with this variable."""
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, **more})}


# TF_CONFIG


@pytest.mark.parametrize(
    ("environment", "numbers"),
    [
        (tf_config(WORKERS), (0, 3)),
        (tf_config(WORKERS, index=2), (2, 3)),
        (tf_config(WORKERS, index="2"), (2, 3)),
        (tf_config({"chief": ["a:1"], **WORKERS}, "chief"), (0, 4)),
        (tf_config({"chief": ["a:1"], **WORKERS}, index=2), (3, 4)),
        (tf_config({**WORKERS, "ps": ["d:1"], "evaluator": ["e:1"]}, index=1), (1, 3)),
    ],
    ids=["first", "last", "index as text", "chief", "worker after a chief", "others are no ranks"],
)
def test_tf_config_counts_the_chief_and_then_the_workers(environment: dict[str, str], numbers: tuple[int, int]) -> None:
    assert find_rank(environment) == numbers


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (tf_config(WORKERS, "evaluator"), "type 'evaluator' is no rank: start ranks only as chief and worker"),
        (tf_config({**WORKERS, "ps": ["d:1"]}, "ps"), "a task of type 'ps' is no rank"),
        (tf_config(WORKERS, index=3), "there is no worker 3: its cluster has 3"),
        (tf_config(WORKERS, index=-1), "there is no worker -1"),
        (tf_config(WORKERS, "chief"), "there is no chief 0: its cluster has 0"),
        (tf_config({"worker": {"1": "b:1"}}, index=1), "holds a sparse cluster, which does not name all ranks"),
        (
            # As Kubeflow writes it for jobs that can grow.
            {"TF_CONFIG": '{"sparseCluster": {"worker": {"1": "b:1"}}, "task": {"type": "worker", "index": 1}}'},
            "holds a sparse cluster, which does not name all ranks",
        ),
    ],
)
def test_a_tf_config_that_names_no_rank_is_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(TfperfError, match=message):
        find_rank(environment)


def test_a_tf_config_that_is_nested_without_end_is_shown_in_part() -> None:
    with pytest.raises(TfperfError, match="is not a cluster with a task"):
        find_rank({"TF_CONFIG": '{"a":' * 5_000})


@pytest.mark.parametrize("text", ["{", "5", "null", "[]", '"a:1"', '{"cluster": {}}', '{"cluster": [], "task": {}}'])
def test_a_tf_config_that_is_none_is_shown_beside_one_that_is(text: str) -> None:
    with pytest.raises(TfperfError, match=r'is not a cluster with a task, as in \{"cluster": \{"worker": \["a:1"') as e:
        find_rank({"TF_CONFIG": text})
    assert f"TF_CONFIG={text} " in str(e.value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["chief", "worker"]), inner),
    max_leaves=6,
)


@given(
    anything
    | st.fixed_dictionaries(
        {
            "cluster": anything,
            "task": st.fixed_dictionaries({"type": anything | st.just("worker"), "index": anything}),
        }
    )
)
def test_any_tf_config_gives_a_rank_or_is_refused(config: Any) -> None:
    with suppress(TfperfError):
        numbers = find_rank({"TF_CONFIG": json.dumps(config)})
        assert 0 <= numbers.rank < numbers.size


# Starters


@pytest.mark.parametrize(
    ("rank", "size"),
    [
        ("TFPERF_RANK", "TFPERF_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("PET_NODE_RANK", "PET_NNODES"),
        ("JOB_COMPLETION_INDEX", "TFPERF_SIZE"),
    ],
    ids=["ours", "Open MPI", "MPICH", "Slurm", "Kubeflow Trainer", "Kubernetes"],
)
def test_each_starter_says_it_in_variables_of_its_own(rank: str, size: str) -> None:
    assert find_rank({"PATH": "/bin", rank: "1", size: "4"}) == (1, 4)


OURS = {"TFPERF_RANK": "3", "TFPERF_SIZE": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}
SLURM = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}


@pytest.mark.parametrize(
    ("environment", "numbers"),
    [
        ({**OURS, **OPEN_MPI, **SLURM}, (3, 4)),
        ({**SLURM, **OPEN_MPI}, (2, 3)),
        ({**SLURM, "TFPERF_RANK": "3"}, (0, 1)),
        ({**OURS, **tf_config(WORKERS, index=1)}, (1, 3)),
        ({**OURS, "TF_CONFIG": ""}, (3, 4)),
    ],
    ids=["ours", "mpirun within a Slurm job", "ours without a size", "TF_CONFIG", "an empty TF_CONFIG"],
)
def test_the_nearest_starter_is_believed(environment: dict[str, str], numbers: tuple[int, int]) -> None:
    assert find_rank(environment) == numbers


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"TFPERF_RANK": "2", "TFPERF_SIZE": "2"},
            "TFPERF_RANK=2, TFPERF_SIZE=2: the rank must be from 0 to below the size",
        ),
        ({"SLURM_PROCID": "-1", "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_PROCID=-1, .* from 0 to below the size"),
        ({"TFPERF_RANK": "0", "TFPERF_SIZE": "0"}, "from 0 to below the size"),
        ({"TFPERF_RANK": "one", "TFPERF_SIZE": "2"}, "TFPERF_RANK=one, .* rank and size must be whole numbers"),
        ({"PET_NODE_RANK": "0", "PET_NNODES": "1:4"}, "PET_NNODES=1:4: rank and size must be whole numbers"),
        ({}, "can't tell which rank it is. Set TFPERF_RANK and TFPERF_SIZE. Known: .*SLURM_PROCID with SLURM_STEP"),
        ({"JOB_COMPLETION_INDEX": "1"}, "can't tell which rank it is"),
    ],
)
def test_variables_that_make_no_rank_are_named(environment: Mapping[str, str], message: str) -> None:
    with pytest.raises(TfperfError, match=message):
        find_rank(environment)


# Its GPUs


def gpus_of_a_rank(given: dict[str, str], **own: str) -> dict[str, str]:
    return {name: value for name, value in environment_of(given, "/scratch", own).items() if name.startswith("CUDA_")}


def test_a_rank_uses_the_gpus_that_the_driver_gives_it() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "GPU-4"}
    assert gpus_of_a_rank(given, CUDA_VISIBLE_DEVICES="0,1,2,3,4") == given


def test_a_rank_that_chooses_gpus_by_index_counts_as_nvml_does() -> None:
    assert gpus_of_a_rank({}, CUDA_DEVICE_ORDER="FASTEST_FIRST") == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_indices_that_a_node_shows_its_rank_keep_their_meaning() -> None:
    own = {"CUDA_VISIBLE_DEVICES": "1,0"}
    assert gpus_of_a_rank({}, **own) == own
