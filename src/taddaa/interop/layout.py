"""Named arrays ↔ one flat vector, in an order that is written down and never left to a library."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Layout:
    """The names and shapes of a model's unconstrained parameters, in the model's own order."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def dim(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def unflatten(self, x) -> dict[str, Any]:
        """A flat vector (…, d) as a dict of arrays, each with the same leading axes."""
        parts, first = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[name] = jnp.reshape(x[..., first : first + size], (*x.shape[:-1], *shape))
            first += size
        return parts

    def flatten(self, parts: Mapping[str, Any], leading: int = 0) -> Any:
        """The inverse of `unflatten`, with this many leading axes."""
        arrays = [jnp.asarray(parts[name]) for name in self.shapes]
        return jnp.concatenate([array.reshape(*array.shape[:leading], -1) for array in arrays], axis=-1)

    def coordinates(self) -> list[str]:
        """A label for each flat coordinate, for messages."""
        return [
            f"{name}[{','.join(map(str, index))}]" if shape else name for name, shape in self.shapes.items() for index in np.ndindex(*shape)
        ]


def said(names, most: int = 6) -> str:
    """Names for a sentence, not more than a reader can use."""
    names = list(names)
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
