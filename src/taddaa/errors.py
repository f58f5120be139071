"""The one exception for input that cannot be diagnosed; its message names the argument, the value and the remedy."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import ParamSpec, TypeVar

LONGEST = 380  # letters of a message
# What other libraries call our arguments.
ELSEWHERE = {
    "approx": "approximation",
    "fit": "approximation",
    "guide": "approximation",
    "idata": "approximation",
    "key": "seed",
    "log_density": "target",
    "logp": "target",
    "model": "target",
    "n_chains": "chains",
    "num_chains": "chains",
    "num_iterations": "iterations",
    "n_iterations": "iterations",
    "prng_key": "seed",
    "progress_bar": "progress",
    "progressbar": "progress",
    "random_seed": "seed",
    "random_state": "seed",
    "rng": "seed",
    "rng_key": "seed",
    "rng_seed": "seed",
}
P = ParamSpec("P")
R = TypeVar("R")


class InputError(ValueError):
    """Input that cannot be diagnosed. The message is one short line, whatever value it quotes."""

    def __init__(self, message: str):
        line = " ".join(message.split())
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 + 3 :]}")


class LostProcess(RuntimeError):
    """Another process of a diagnosis that several make together has died or does not answer."""


def whole_dimension(dim) -> int:
    """The length of a flat vector, checked."""
    if isinstance(dim, bool) or not isinstance(dim, Integral) or dim < 1:
        raise InputError(f"dim must be a whole number of at least 1, got {dim!r}")
    return int(dim)


def whole_seed(seed) -> int:
    """A seed, checked."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    if int(seed) >= 2**128:
        raise InputError("seed must be below 2**128, got a larger number")
    return int(seed)


def kindly(function: Callable[P, R], elsewhere: tuple[str, Callable] | None = None) -> Callable[P, R]:
    """The same function, which says of an argument that it does not have which one is meant.

    Args:
        elsewhere: where else arguments may belong, as what to write there and the function that takes them: ("settings=…", Settings).
    """
    own = [name for name in inspect.signature(function).parameters if name != "self"]
    called = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in own:
                raise TypeError(f"{called}() has no argument {name!r}{_meant(name, own, elsewhere)}")
        return function(*args, **kwargs)

    return checked


def _meant(name: str, own: list[str], elsewhere: tuple[str, Callable] | None) -> str:
    others = [] if elsewhere is None else list(inspect.signature(elsewhere[1]).parameters)
    for wanted in (name, ELSEWHERE.get(name, name), *get_close_matches(name, [*own, *others], n=1)):
        if wanted in own:
            return f"; use {wanted}="
        if elsewhere is not None and wanted in others:
            return f"; use {elsewhere[0].replace('…', f'{wanted}=…')}"
    return f"; it takes {', '.join(own)}"


def place_of(error: BaseException) -> str:
    """Where in the user's own code an error arose, for a sentence: ` at line 12 of model.py (a[group])`; '' where it cannot be told."""
    import traceback

    ours = str(Path(__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "site-packages" not in frame.filename and not frame.filename.startswith((ours, "<frozen")):
            line = (frame.line or "").strip()
            return f" at line {frame.lineno} of {Path(frame.filename).name}" + (f" ({line[:80]})" if line else "")
    return ""


def visible(text: str) -> str:
    """One line of text that only says something: characters that a terminal would obey, and line ends, are spelled out."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class MissingExtra(ImportError):
    """An optional package is needed and not installed; the message holds the pip command."""


def require(package: str, extra: str):
    """Import an optional package when it is first needed."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as error:
        root = package.partition(".")[0]
        if error.name and error.name.partition(".")[0] != root:
            raise  # the package is there; something it needs is broken, and its own message is the better one
        raise MissingExtra(f"this needs {root}, which is not installed: pip install 'taddaa[{extra}]'") from error
