"""The studies' data: from the folder that `TADDAA_DATA` names, else from the cache, else downloaded; always with a checksum.

No data comes with the package. The candy ranking is FiveThirtyEight's (CC BY 4.0); the leukemia microarray is that of Golub et
al. (1999), as the R package datamicroarray (MIT) has it.
"""

import csv
import hashlib
import io
import lzma
import os
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, require

if TYPE_CHECKING:
    import pandas as pd  # only the larger file pays for its import

VARIABLE = "TADDAA_DATA"
GITHUB = "https://raw.githubusercontent.com"
GENES_KEPT = 100
TRAINING = 38  # of Golub's patients, numbered first


class Dataset(NamedTuple):
    """Features (n, p), outcomes 0 or 1, and the features' names."""

    x: np.ndarray
    y: np.ndarray
    columns: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Names these very numbers, in keys of what was computed from them."""
        return hashlib.sha256(self.x.tobytes() + self.y.tobytes()).hexdigest()[:16]


class Source(NamedTuple):
    """A file that holds a data set: its name in a folder, its checksum, and its address if it can be downloaded."""

    name: str
    sha256: str
    address: str | None = None


CANDY = (
    Source(
        "candy-data.csv",
        "46c17cdb8c0212bc3e0cee2a9617a75d1ce642cd1559c332b1d9a2c4ed19b8cb",
        f"{GITHUB}/fivethirtyeight/data/master/candy-power-ranking/candy-data.csv",
    ),
)
LEUKEMIA = (
    Source("leukemia.csv.gz", "3278cd0629c77417fd83c37a1a34d4d92b26a1ab8477e8fc94f49e18e7160fed"),  # y 1 or 2, then 7,129 genes
    Source(
        "golub.RData",
        "594f5507597fb2352d210c803a88a218fbf6d1f2705372029e5738815216747b",
        f"{GITHUB}/ramhiser/datamicroarray/a95f6f68ed3debf48ee54f198435fa12aa655b16/data/golub.RData",
    ),
)


@cache
def candy() -> Dataset:
    """85 candies: chocolate or not, and 11 features as they are."""
    with find(CANDY).open(newline="", encoding="utf-8") as lines:
        (_, _, *columns), *rows = csv.reader(lines)  # the first two are the candy's name and whether it is chocolate
    numbers = np.array([row[1:] for row in rows], float)
    return Dataset(np.ascontiguousarray(numbers[:, 1:]), numbers[:, 0].copy(), tuple(columns))


@cache
def leukemia() -> Dataset:
    """71 patients (the first of 72 is left out, as it seems to be in the paper), acute myeloid or not, and the 100 genes that
    best tell them apart: scaled to [0, 1] and ranked by χ² scores."""
    path = find(LEUKEMIA)
    labels, expression = _golub(path.read_bytes()) if path.suffix == ".RData" else _csv(path)
    expression, myeloid = expression.iloc[1:], labels[1:] == 2
    scaled = (expression - expression.min()) / (expression.max() - expression.min())
    kept = np.sort(np.argsort(-chi2_scores(scaled.to_numpy(), myeloid), kind="stable")[:GENES_KEPT])
    return Dataset(scaled.iloc[:, kept].to_numpy(), myeloid.astype(float), tuple(scaled.columns[kept]))


def chi2_scores(features: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Σ over classes of (observed − expected)²/expected, of each non-negative feature's total (as scikit-learn's `chi2`)."""
    total, share = features.sum(axis=0), positive.mean()
    observed = features[positive].sum(axis=0)
    expected = share * total
    return (observed - expected) ** 2 * (1 / expected + 1 / (total - expected))


def find(sources: tuple[Source, ...]) -> Path:
    """The first of the files that is in the variable's folder or the cache, else the one that can be downloaded.

    Raises:
        InputError: a file is not the right one, or none can be had.
    """
    own = os.environ.get(VARIABLE)
    found = _among(Path(own), sources) if own else None
    if found is not None:
        return found
    pooch = require("pooch", "experiments")
    cached = _among(Path(pooch.os_cache("taddaa")), sources)
    if cached is not None:
        return cached
    pooch.get_logger().setLevel("WARNING")
    source = next(source for source in sources if source.address)
    try:
        return Path(pooch.retrieve(source.address, f"sha256:{source.sha256}", source.name, pooch.os_cache("taddaa")))
    except Exception as error:  # no network, a proxy, a moved file: requests and urllib3 have many names for it
        raise InputError(
            f"{source.name} cannot be had from {source.address} ({type(error).__name__}); download it by other means and set "
            f"{VARIABLE} to the folder that holds it"
        ) from error


def _among(folder: Path, sources: tuple[Source, ...]) -> Path | None:
    """The first of the files that the folder has; one that is not the right one is refused, not passed over."""
    for source in sources:
        path = folder / source.name
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != source.sha256:
                raise InputError(
                    f"{path} is not the file that the studies use (its sha256 is not {source.sha256[:12]}…); remove or replace it"
                )
            return path
    return None


def _csv(path: Path) -> tuple[np.ndarray, "pd.DataFrame"]:
    import pandas as pd

    table = pd.read_csv(path)
    return table["y"].to_numpy(), table.drop(columns="y")


# R's own format, as far as this one file needs it -------------------------------------------------------------------------------


def _golub(content: bytes) -> tuple[np.ndarray, "pd.DataFrame"]:
    """Labels (1 lymphoblastic, 2 myeloid) and expressions of patients 1 to 72 from `golub.RData`: a list of a matrix and a factor."""
    import pandas as pd

    stream = io.BytesIO(lzma.decompress(content))
    stream.read(19)  # the format's name and versions
    values, attributes = _R(stream).item()["golub"]
    (x, about), (y, _) = (values[attributes["names"][0].index(name)] for name in ("x", "y"))
    patients, genes = (names for names, _ in about["dimnames"][0])
    expression = pd.DataFrame(x.reshape(tuple(about["dim"][0]), order="F"), columns=genes)
    order = np.argsort([int(patient) > TRAINING for patient in patients], kind="stable")  # the training samples come first
    return y[order], expression.iloc[order]


class _R:
    """A reader of R's serialised values: vectors as (values, attributes), pairlists as dicts."""

    ATTRIBUTES, TAG = 0x200, 0x400

    def __init__(self, stream: io.BytesIO):
        self.stream, self.symbols = stream, []  # type: ignore[var-annotated]

    def integer(self) -> int:
        return struct.unpack(">i", self.stream.read(4))[0]

    def item(self) -> Any:
        flags = self.integer()
        kind = flags & 0xFF
        if kind == 0xFE:  # NULL
            return None
        if kind == 0xFF:  # a symbol seen before
            return self.symbols[(flags >> 8) - 1]
        if kind == 1:  # a symbol
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == 2:  # a pairlist
            pairs: dict[str, Any] = {}
            while kind == 2:
                if flags & self.ATTRIBUTES:
                    self.item()
                tag = self.item() if flags & self.TAG else ""
                pairs[tag] = self.item()
                flags = self.integer()
                kind = flags & 0xFF
            return pairs
        length = self.integer()
        if kind == 9:  # characters
            return self.stream.read(max(length, 0)).decode()
        if kind in (10, 13):  # logical, integer
            values: Any = np.frombuffer(self.stream.read(4 * length), ">i4").astype(int)
        elif kind == 14:  # real
            values = np.frombuffer(self.stream.read(8 * length), ">f8").astype(float)
        elif kind in (16, 19):  # strings, lists
            values = [self.item() for _ in range(length)]
        else:
            raise InputError(f"golub.RData holds an R value of type {kind}, which this reader does not know")
        return values, (self.item() if flags & self.ATTRIBUTES else {})
