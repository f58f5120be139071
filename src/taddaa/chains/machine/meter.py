"""What a diagnosis costs: gradients counted by the engine, seconds, and compiling as JAX itself reports it."""

import time
from dataclasses import dataclass, field
from typing import Any

import jax


@dataclass
class Meter:
    """Gradients evaluated and seconds spent, of which compiling."""

    gradients: int = 0
    programs: int = 0
    compiling: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def so_far(self) -> dict[str, float]:
        return {"gradients": self.gradients, "programs": self.programs, "compiling": self.compiling, "seconds": self.seconds}

    def resume(self, gradients: int, programs: int, compiling: float, seconds: float) -> None:
        """Go on from what another process had spent; what this one compiled and took since comes on top."""
        self.gradients = gradients
        self.programs, self.compiling, self.started = self.programs + programs, self.compiling + compiling, self.started - seconds


_LISTENERS: list[Meter] = []
_COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


def _on_duration(event: str, seconds: float, **_: Any) -> None:
    if _LISTENERS and event in _COMPILE_EVENTS:
        _LISTENERS[-1].compiling += seconds
        _LISTENERS[-1].programs += event == _COMPILE_EVENTS[-1]


jax.monitoring.register_event_duration_secs_listener(_on_duration)  # type: ignore[arg-type]


class watch_compiling:
    """While open, JAX's own reports of compiling go to this meter."""

    def __init__(self, meter: Meter):
        self._meter = meter

    def __enter__(self):
        _LISTENERS.append(self._meter)

    def __exit__(self, *_):
        _LISTENERS.pop()
