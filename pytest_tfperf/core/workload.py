"""The `Workload` to train, its readable id, and the enums of its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from pytest_tfperf.errors import WorkloadError, known_names, unknown


class VariableUpdate(StrEnum):
    """The ways in which replicas share the variables, in tf_cnn_benchmarks' words."""

    REPLICATED = "replicated"
    PARAMETER_SERVER = "parameter_server"
    INDEPENDENT = "independent"  #: nothing is exchanged, and each replica trains its own copy
    COLLECTIVE = "collective"  #: a process for each node; MultiWorkerMirroredStrategy
    HOROVOD = "horovod"  #: a process for each device; Horovod's all-reduce


class AllReduce(StrEnum):
    """The ways in which gradients are summed."""

    AUTO = "auto"  #: as TensorFlow chooses (`collective`), or as Horovod was built (`horovod`)
    COPY = "copy"  #: copied together and added, on the host or on the GPUs in turn (`ParameterDevice`)
    HIERARCHICAL = "hierarchical"  #: along the hierarchy of links
    RING = "ring"  #: from each rank to the next, through the hosts
    NCCL = "nccl"


class ParameterDevice(StrEnum):
    """Where `parameter_server` keeps the variables, and where `replicated` with `copy` sums the gradients.

    `cpu`: in the host's memory; `gpu`: the variables in the first GPU's memory, the sums on all GPUs in turn.
    """

    CPU = "cpu"
    GPU = "gpu"


class Precision(StrEnum):
    """Keras' dtype policies, by their Keras names."""

    FLOAT32 = "float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"


class Optimizer(StrEnum):
    """tf_cnn_benchmarks' optimizers: plain gradient descent, or with Nesterov momentum of 0.9."""

    SGD = "sgd"
    MOMENTUM = "momentum"


class Trainer(StrEnum):
    """`loop` compiles a window of steps into one call; `keras` calls `model.fit`; `own` is an object of the user's."""

    LOOP = "loop"
    KERAS = "keras"
    OWN = "own"


class Unit(StrEnum):
    """The units that a throughput counts."""

    EXAMPLES = "examples"  # called images where the model takes images
    TOKENS = "tokens"  # of an input [batch, length], padding included


ALL_REDUCES = {
    VariableUpdate.REPLICATED: (AllReduce.COPY, AllReduce.HIERARCHICAL, AllReduce.NCCL),
    VariableUpdate.COLLECTIVE: (AllReduce.AUTO, AllReduce.RING, AllReduce.NCCL),
    VariableUpdate.HOROVOD: (AllReduce.AUTO, AllReduce.NCCL),
}
"""The all-reduces of each variable update, its default first. The other updates have no choice."""

DISTRIBUTED = frozenset({VariableUpdate.COLLECTIVE, VariableUpdate.HOROVOD})
"""Updates whose processes exchange gradients. (`parameter_server` trains several nodes from a single process.)"""

_NAMED_IN_IDS = [choice.value for choice in AllReduce if choice is not AllReduce.AUTO]


# A registered name (letters, digits, and dashes inside), or a user's own "package.module:function".
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*|[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*"
_MAX_BATCH = 999_999_999
_MAX_PACKS = 999
_ID = re.compile(
    rf"(?P<model>{_NAME}?)-b(?P<batch_size>[1-9][0-9]{{0,8}})"  # lazy: the first word like "b64" ends the name
    rf"-(?P<variable_update>{'|'.join(VariableUpdate)})"
    rf"(?:-(?P<all_reduce>{'|'.join(_NAMED_IN_IDS)}))?"
    rf"-(?P<input_pipeline>{_NAME}?)"  # lazy: "packs4" is no part of the name
    rf"(?:-packs(?P<num_packs>[1-9][0-9]{{0,2}}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A training to measure; equal workloads have equal ids and share their baselines.

    Args:
        model: the name of a shipped model, or of one that the hook `pytest_tfperf_models` gives; or
            `"package.module:function"`, a function without required arguments that returns a Keras model. With
            `trainer="own"` it returns the whole training.
        batch_size: examples per replica and step.
        input_pipeline: the name of a shipped pipeline, or of one that the hook `pytest_tfperf_pipelines` gives; or
            `"package.module:function"`.
        variable_update: tf_cnn_benchmarks' flag of that name.
        all_reduce: how gradients are summed; "auto" becomes the variable update's default.
        num_packs: the number of tensors that gradients are packed into before `hierarchical` or `nccl` sums them
            (tf_cnn_benchmarks' gradient_repacking); 0: each gradient is summed by itself.
        local_parameter_device: where `parameter_server` keeps the variables, and `replicated` with `copy` sums the
            gradients (tf_cnn_benchmarks' flag of that name, whose default is "gpu").
        precision: Keras' dtype policy.
        tf32: whether GPUs with TF32 (compute capability 8.0 or higher) round the factors of float32 products to it,
            as TensorFlow does by default.
        xla: whether XLA compiles the step.
        optimizer: how gradients update the variables.
        trainer: the package's own loop, Keras' `fit`, or an object that the model's function returns.
        forward_only: whether it runs inference instead of training.
        unit: the unit that the throughput counts.
        tokens_of: the input, of several, whose tokens `unit="tokens"` counts: its key in the batch or its
            `keras.Input`'s name, else its position from 0; "" where all inputs have the same length.

    Raises:
        WorkloadError: an unknown choice (lists the known choices), a batch below 1, or choices that contradict each
            other.
    """

    model: str
    batch_size: int
    input_pipeline: str = "device"
    variable_update: VariableUpdate = VariableUpdate.REPLICATED
    all_reduce: AllReduce = AllReduce.AUTO
    num_packs: int = 0
    local_parameter_device: ParameterDevice = ParameterDevice.CPU
    precision: Precision = Precision.FLOAT32
    tf32: bool = True
    xla: bool = False
    optimizer: Optimizer = Optimizer.SGD
    trainer: Trainer = Trainer.LOOP
    forward_only: bool = False
    unit: Unit = Unit.EXAMPLES
    tokens_of: str = ""

    if TYPE_CHECKING:
        # Tests write choices as texts, which become the enums' members; their type checker must accept both.
        def __init__(
            self,
            *,
            model: str,
            batch_size: int,
            input_pipeline: str = ...,
            variable_update: VariableUpdate | str = ...,
            all_reduce: AllReduce | str = ...,
            num_packs: int = ...,
            local_parameter_device: ParameterDevice | str = ...,
            precision: Precision | str = ...,
            tf32: bool = ...,
            xla: bool = ...,
            optimizer: Optimizer | str = ...,
            trainer: Trainer | str = ...,
            forward_only: bool = ...,
            unit: Unit | str = ...,
            tokens_of: str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, checked(field.name, getattr(self, field.name)))
        if self.all_reduce is AllReduce.AUTO:
            object.__setattr__(self, "all_reduce", self._all_reduces[0])
        if fault := self._contradiction():
            raise WorkloadError(fault)

    def _contradiction(self) -> str:
        """Return which choices contradict each other, and the way out; "" if none do."""
        update, choices = self.variable_update, self._all_reduces
        is_keras, is_own = self.trainer is Trainer.KERAS, self.trainer is Trainer.OWN
        by_copy = update is VariableUpdate.REPLICATED and self.all_reduce is AllReduce.COPY
        if self.all_reduce not in choices:
            known = " or ".join(repr(choice.value) for choice in choices)
            return f"all_reduce={self.all_reduce.value!r} is no choice of variable_update={update.value!r}: " + (
                "leave it out" if len(choices) == 1 else f"use {known}"
            )
        if is_keras and update in DISTRIBUTED:
            return (
                f"trainer='keras' can't train with variable_update={update.value!r}: Keras 3's fit fails under "
                "MultiWorkerMirroredStrategy (keras#20585) and has no Horovod callback; use trainer='loop'"
            )
        if is_keras and (self.forward_only or update is VariableUpdate.INDEPENDENT):
            return (
                "trainer='keras' always trains, and its replicas exchange gradients; use trainer='loop' with "
                f"{'forward_only' if self.forward_only else 'independent'!r}"
            )
        if is_own and (given := self._training_options()):
            return (
                f"trainer='own' leaves everything to the object that {self.model!r} returns: leave out "
                f"{', '.join(given)}"
            )
        if self.forward_only and self.optimizer is not Optimizer.SGD:
            return f"optimizer={self.optimizer.value!r} has no effect with forward_only=True: leave it out"
        if self.num_packs and (update is not VariableUpdate.REPLICATED or by_copy):
            return (
                f"num_packs={self.num_packs} packs the gradients of variable_update='replicated' for "
                "all_reduce='hierarchical' or 'nccl': choose one of these, or leave num_packs out"
            )
        takes_device = by_copy or update is VariableUpdate.PARAMETER_SERVER
        if self.local_parameter_device is ParameterDevice.GPU and not takes_device:
            return (
                "local_parameter_device='gpu' is a choice of variable_update='parameter_server', and of 'replicated' "
                f"with all_reduce='copy'; leave it out with {update.value!r} and {self.all_reduce.value!r}"
            )
        if self.tokens_of and self.unit is not Unit.TOKENS:
            return (
                f"tokens_of={self.tokens_of!r} names what unit='tokens' counts: give that unit, or leave tokens_of out"
            )
        return ""

    def _training_options(self) -> list[str]:
        """Return the fields, besides model, batch and trainer, that do not have their defaults."""
        own = [field for field in fields(self) if field.name not in ("model", "batch_size", "trainer", "all_reduce")]
        given = [field.name for field in own if getattr(self, field.name) != field.default]
        return given if self._has_default_all_reduce else [*given, "all_reduce"]

    @property
    def _all_reduces(self) -> tuple[AllReduce, ...]:
        return ALL_REDUCES.get(self.variable_update, (AllReduce.COPY,))

    @property
    def _has_default_all_reduce(self) -> bool:
        return self.all_reduce is self._all_reduces[0]

    @property
    def id(self) -> str:
        """The readable, stable and unique id. After model, batch, update and pipeline it names only values that are
        not the defaults.

        >>> Workload(model="resnet50", batch_size=64).id
        'resnet50-b64-replicated-device'
        """
        parts = [self.model, f"b{self.batch_size}", self.variable_update.value]
        if self.all_reduce not in (AllReduce.AUTO, AllReduce.COPY):
            parts.append(self.all_reduce.value)
        parts.append(self.input_pipeline)
        if self.num_packs:
            parts.append(f"packs{self.num_packs}")
        parts += [word for word, (field, value) in _SUFFIXES.items() if getattr(self, field) == value]
        return "-".join(parts) + (f"_of_{self.tokens_of}" if self.tokens_of else "")  # it ends with "in_tokens"

    @classmethod
    def parse(cls, id: str) -> Self:
        """Return the workload that has this id.

        Raises:
            WorkloadError: the text is not an id; gives an example.
        """
        rest = id
        choices: dict[str, Any] = {}
        if named := _TOKENS_OF.search(rest):
            rest, choices["tokens_of"] = rest.removesuffix(named["suffix"]), named["tokens_of"]
        for word, (field, value) in reversed(_SUFFIXES.items()):
            if rest.endswith(f"-{word}"):
                rest = rest.removesuffix(f"-{word}")
                choices[field] = value
        match = _ID.fullmatch(rest)
        if match is None:
            raise WorkloadError(
                f"{id[:80]!r} is not a workload id, which reads model-bBATCH-"
                "VARIABLE_UPDATE-INPUT_PIPELINE, then what is not the default, as in 'resnet50-b64-replicated-device'"
            )
        for name, value in match.groupdict().items():
            if value is not None:
                choices[name] = int(value) if name in ("batch_size", "num_packs") else value
        workload = cls(**choices)
        if workload.id != id:  # "copy" spelt out, or words in another order: one workload would have two rows
            raise WorkloadError(f"{id!r} is not the canonical id of this workload: write {workload.id!r}")
        return workload

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; raises WorkloadError as the class does.

        Another variable update gets its own default of `all_reduce`, if this workload has the default.
        """
        if self._has_default_all_reduce:
            changes = {"all_reduce": AllReduce.AUTO, **changes}
        return replace(self, **changes)

    def __str__(self) -> str:
        return self.id


_CHOICES = {name: kind for name, kind in get_type_hints(Workload).items() if issubclass(kind, StrEnum)}

# The words that end an id, after the packs and in this order, with the field and value of each.
_SUFFIXES: dict[str, tuple[str, Any]] = {
    "parameters_on_gpu": ("local_parameter_device", ParameterDevice.GPU),
    "mixed_float16": ("precision", Precision.MIXED_FLOAT16),
    "mixed_bfloat16": ("precision", Precision.MIXED_BFLOAT16),
    "no_tf32": ("tf32", False),
    "xla": ("xla", True),
    "momentum": ("optimizer", Optimizer.MOMENTUM),
    "keras": ("trainer", Trainer.KERAS),
    "own_training": ("trainer", Trainer.OWN),
    "forward_only": ("forward_only", True),
    "in_tokens": ("unit", Unit.TOKENS),
}

_INPUT_NAME = "[A-Za-z0-9_-]+"
_TOKENS_OF = re.compile(rf"-in_tokens(?P<suffix>_of_(?P<tokens_of>{_INPUT_NAME}))\Z")

# Words that a pipeline's name must not contain, because two workloads would then have one id.
_RESERVED = re.compile("|".join([*_SUFFIXES, *_NAMED_IN_IDS, "packs[0-9]+"]))


def checked(field: str, value: Any) -> Any:
    """Return a field's value in the field's type, regardless of the other fields.

    Raises:
        WorkloadError: the field can't have this value; lists or describes the values that it can have.
    """
    if field in _CHOICES:
        try:
            return _CHOICES[field](value)
        except ValueError:
            known = known_names(value, _CHOICES[field])
            raise WorkloadError(unknown(field, value), next_step=known) from None
    if field in ("model", "input_pipeline"):
        _require_name(field, value)
    elif field == "tokens_of":
        if not isinstance(value, str) or not re.fullmatch(f"(?:{_INPUT_NAME})?", value):
            raise WorkloadError(
                f"tokens_of={value!r} must be the name of a model's input, of letters, digits, '_' and '-'"
            )
    elif field == "batch_size":
        if type(value) is not int or not 1 <= value <= _MAX_BATCH:
            raise WorkloadError(
                f"batch_size={value!r}: examples per replica must be a whole number from 1 to {_MAX_BATCH:,}"
            )
    elif field == "num_packs":
        if type(value) is not int or not 0 <= value <= _MAX_PACKS:
            raise WorkloadError(f"num_packs={value!r} must be a whole number from 0 (no packing) to {_MAX_PACKS}")
    elif type(value) is not bool:
        raise WorkloadError(f"{field}={value!r} must be True or False")
    return value


def _require_name(field: str, value: Any) -> None:
    if not isinstance(value, str) or not re.fullmatch(_NAME, value):
        raise WorkloadError(
            f"{field}={value!r} is not a name: names have lower-case letters, digits and '-', as "
            f"{'resnet50' if field == 'model' else 'device'!r}; or give 'package.module:function'"
        )
    if field == "input_pipeline" and (taken := next(filter(_RESERVED.fullmatch, value.split("-")), None)):
        raise WorkloadError(
            f"input_pipeline={value!r}: {taken!r} has another meaning in a workload's id: "
            "give the pipeline a name without it"
        )
    if field == "model" and re.search(r"-b[0-9]+(?:-|\Z)", value):
        raise WorkloadError(
            f"model={value!r}: a word like 'b64' means the batch size in a workload's id: "
            "give the model a name without it"
        )


_OWN_FUNCTION = re.compile(r"[\w.]+:(\w+)")


def shown_name(id: str, name: str = "") -> str:
    """Return the name that a test gave its workload, else the id without the modules of users' functions.

    >>> shown_name("acme.nets:small_cnn-b32-replicated-device")
    'small_cnn-b32-replicated-device'
    """
    return name or _OWN_FUNCTION.sub(r"\1", id)
