"""The keys of a task as the parameters of functions, for who calls us from Python."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from dataeff.training.task import CompileMode


class Keys(TypedDict, total=False):
    """The keys of a task, as `dataeff tasks` prints them, without data, network and epochs."""

    batch_size: int
    validation: float
    workers: int
    optimizer: Literal["sgd", "adam", "adamw"]
    lr: float
    trunk_lr: float
    frozen_trunk: bool
    momentum: float
    nesterov: bool
    weight_decay: float
    schedule: Literal["constant", "step", "cosine", "onecycle"]
    warmup: float
    milestones: Sequence[float]
    gamma: float
    clip: float | None
    clip_by: Literal["norm", "value"]
    label_smoothing: float
    channels_last: bool
    compile: bool | str
    compile_mode: CompileMode | None
    tf32: bool | None
    cudnn_benchmark: bool
    deterministic: bool
    test_every: int | None
