"""What a study is: independent cells, each measured by itself and stored, then claims, a table and figures from all of them.

To add a study, write one subclass of `Study` and name it in `experiments/__init__.py`:

    class Mine(Study):
        name, title, place = "mine", "My study", "section 4.9, figure 9"
        sources = (my_helper_module,)              # what else decides the numbers

        def cells(self, quick):                    # quick: all of them together in under a minute
            return [Cell(f"d={d} {method}", {"d": d, "method": method}) for d in dims for method in METHODS]

        def run(self, cell, store):                # plain numbers, strings, lists and dicts; NaN and infinity are allowed
            return {"bound": …, "error": …}

        def claims(self, results):                 # a result is the cell's parameters and what `run` returned, in one dict
            return [Claim.judged("Figure 9", "“…”", {"largest ratio": x}, "largest ratio < 0.5", x < 0.5, reason="…")]
"""

import hashlib
import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import write_whole
from ..settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER, OURS = "paper", "ours"
METHODS: dict[str, Callable[..., Settings]] = {PAPER: Settings.paper, OURS: Settings}  # METHODS[method](kernel="mala")
REPRODUCED, DIFFERENT, NOT_REPRODUCED = "reproduced", "different", "not reproduced"

Result = dict[str, Any]  # a cell's parameters and what was measured there


@dataclass(frozen=True)
class Cell:
    """One independent piece of a study; the parameters, plain values, decide everything that `run` does."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A sentence that is true or not, and the numbers that decide.

    Args:
        where: the figure or section of the paper; for our own claims, what they follow from.
        text: the claim, in the paper's words where it is the paper's.
        numbers: what was measured, by name.
        condition: the condition on the numbers, in words; the code that judged it is in the study.
        verdict: reproduced, different (it holds only in part, or under another reading, as the reason says) or not reproduced.
        reason: why, if it is not simply reproduced; or what a reader should know.
        method: paper (the preset) or ours (the defaults): whose numbers they are.
    """

    where: str
    text: str
    numbers: dict[str, float]
    condition: str
    verdict: str
    reason: str = ""
    method: str = PAPER

    @classmethod
    def judged(
        cls, where: str, text: str, numbers: dict[str, Any], condition: str, holds: Any, *, partly: Any = False, reason="", method=PAPER
    ) -> "Claim":
        """Reproduced if the condition `holds`; otherwise different if it holds `partly`, else not reproduced."""
        verdict = REPRODUCED if holds else DIFFERENT if partly else NOT_REPRODUCED
        return cls(where, text, {name: float(value) for name, value in numbers.items()}, condition, verdict, reason, method)


@dataclass(frozen=True)
class Table:
    """A small table for the page: column heads, and rows of strings or numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Study(ABC):
    """One of the paper's studies; see the module's text for how to write one."""

    name: str
    title: str
    place: str  # in the paper
    about: str = ""  # a paragraph or two for the page: the set-up, what is taken as the truth, and any doubt about it
    sources: Sequence[
        Any
    ] = ()  # modules and functions that decide the numbers, besides `cells` and `run`: if they change, cells are measured anew

    @abstractmethod
    def cells(self, quick: bool) -> list[Cell]:
        """What to measure; `quick` is a small version that takes less than a minute in all."""

    @abstractmethod
    def run(self, cell: Cell, store: "Store") -> dict[str, Any]:
        """Measure one cell. What several cells share goes through `store.once`."""

    @abstractmethod
    def claims(self, results: list[Result]) -> list[Claim]:
        """Judge the paper's claims (and ours) by the numbers; must also work on the quick version's results."""

    @abstractmethod
    def figures(self, results: list[Result]) -> "dict[str, tuple[Figure, str]]":
        """Figures and their captions by a short file name, the paper's layout first."""

    def table(self, results: list[Result]) -> Table | None:
        """The main numbers."""
        return None

    def stamp(self) -> str:
        """A key of the code that decides the numbers: a changed study is measured anew, a changed figure is not."""
        parts = [type(self).cells, type(self).run, *self.sources]
        return _digest("".join(inspect.getsource(part) for part in parts))


class Store:
    """A folder of JSON values, each written whole or not at all, so that stopped work goes on where it was."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    def path(self, name: str, key: Any) -> Path:
        readable = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)[:80]
        return self.folder / f"{readable}-{_digest(json.dumps(key, sort_keys=True, default=_plain))}.json"

    def get(self, name: str, key: Any) -> Any:
        """The stored value; None if there is none, or it is damaged or of another key."""
        try:
            kept = json.loads(self.path(name, key).read_text(encoding="utf-8"))
            return kept["value"] if kept["key"] == json.loads(json.dumps(key, default=_plain)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, name: str, key: Any, value: Any) -> Any:
        """Store a value, and return it as it will be read back (tuples and arrays become lists)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": key, "value": value}, default=_plain)
        write_whole(self.path(name, key), text)
        return json.loads(text)["value"]

    def once(self, name: str, key: Any, make: Callable[[], Any]) -> Any:
        """The stored value of this key, made now if there is none. The key must say everything that decides the value."""
        kept = self.get(name, key)
        return self.put(name, key, make()) if kept is None else kept


def finite(value: Any) -> Any:
    """The same value with null for NaN and infinity, which JSON does not know."""
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_dict(claim: Claim) -> dict[str, Any]:
    return asdict(claim)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a study's results must be plain values, got {type(value).__name__}")
