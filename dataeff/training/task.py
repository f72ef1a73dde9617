"""A task: what every strategy of a comparison is given alike."""

import hashlib
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

CompileMode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]

_LATER = ("trunk_lr", "frozen_trunk")


class Task(BaseModel):
    """Dataset, model, budget, optimizer and schedule; epochs may be fractional everywhere.

    Its limits are far beyond all that makes sense: what exceeds them is a slip of the finger.
    """

    # Strict: `lr = true` is no number, and neither is `lr = "0.1"`.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    dataset: str = Field(description="a dataset, see: dataeff datasets")
    model: str = Field(description="a network, see: dataeff models")
    epochs: float = Field(
        ge=0.001, le=1e6, description="passes over the training set; may be a fraction"
    )
    batch_size: int = Field(128, ge=1, le=10**9, description="rows of a batch")

    optimizer: Literal["sgd", "adam", "adamw"] = Field("sgd", description="what takes the steps")
    lr: float = Field(0.1, gt=0, le=1e30, description="largest learning rate of the schedule")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of 'sgd'")
    nesterov: bool = Field(False, description="Nesterov's form of momentum, for 'sgd'")
    weight_decay: float = Field(5e-4, ge=0, le=1e6, description="decay of the weights")

    schedule: Literal["constant", "step", "cosine", "onecycle"] = Field(
        "cosine", description="course of the learning rate"
    )
    warmup: float = Field(0.0, ge=0, description="epochs of linear warm-up")
    milestones: tuple[Annotated[float, Strict(), Field(gt=0)], ...] = Field(
        (), strict=False, max_length=1000, description="epochs at which 'step' decays"
    )
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each decay of 'step'")

    trunk_lr: float = Field(
        1.0, gt=0, le=1e6, description="factor on the learning rate of all but the head"
    )
    frozen_trunk: bool = Field(
        False, description="train the head alone; all else stays as it begins, BatchNorm included"
    )

    clip: float | None = Field(None, gt=0, le=1e9, description="largest gradient, see clip_by")
    clip_by: Literal["norm", "value"] = Field(
        "norm", description="clip limits the gradient's norm, or each entry of it"
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="share of each label that is spread over all classes"
    )
    channels_last: bool = Field(True, description="keep images with their channels last in memory")
    compile: bool | str = Field(False, description="torch.compile; a text names its backend")
    compile_mode: CompileMode | None = Field(None, description="mode of torch.compile's inductor")
    tf32: bool | None = Field(
        None, description="TF32 on a GPU; where nothing is said, in convolutions only"
    )
    cudnn_benchmark: bool = Field(False, description="let cuDNN try which kernels are fastest")
    deterministic: bool = Field(False, description="only algorithms that repeat bit by bit")
    validation: float = Field(0.1, ge=0, lt=1, description="share carved from the training set")
    test_every: int | None = Field(
        None,
        ge=1,
        le=10**6,
        description="epochs between tests of the whole test set; none: tests on a part of it",
    )
    workers: int = Field(
        0, ge=0, le=256, description="loader processes, for sets that are streamed"
    )

    @field_validator("compile", mode="before")
    @classmethod
    def _is_a_backend(cls, value: Any) -> Any:
        if not isinstance(value, bool | str):
            raise ValueError("write true, false, or the name of a backend in quotes")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _has_no_negative_zero(cls, value: Any) -> Any:
        # It is no other number, and must make no other task.
        return value + 0.0 if isinstance(value, float) else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.nesterov and not (self.optimizer == "sgd" and self.momentum > 0):
            raise ValueError('nesterov = true needs optimizer = "sgd" and momentum above 0')
        if (self.schedule == "step") != bool(self.milestones):
            raise ValueError('schedule = "step" and milestones = [...] go together')
        if any(milestone >= self.epochs for milestone in self.milestones):
            raise ValueError(f"milestones must come before the end ({self.epochs:g} epochs)")
        if self.warmup >= self.epochs:
            raise ValueError(f"warmup must be shorter than training ({self.epochs:g} epochs)")
        if self.compile_mode and self.compile not in (True, "inductor"):
            raise ValueError("compile_mode is for torch's own compiler: write compile = true too")
        if self.frozen_trunk and self.trunk_lr != 1.0:
            raise ValueError("frozen_trunk = true and trunk_lr exclude each other")
        if self.deterministic and self.cudnn_benchmark:
            raise ValueError("deterministic = true and cudnn_benchmark = true exclude each other")
        return self

    @property
    def id(self) -> str:
        """Return a short hash of every field: equal only for equal tasks."""
        # What was measured before there were these is of the same tasks as ever.
        unsaid = {key for key in _LATER if getattr(self, key) == Task.model_fields[key].default}
        return hashlib.sha256(self.model_dump_json(exclude=unsaid).encode()).hexdigest()[:8]
