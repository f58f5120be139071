"""The one exception for input that cannot be diagnosed; its message names the argument, the value and the remedy."""

from numbers import Integral

LONGEST = 380  # letters of a message


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
