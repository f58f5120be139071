"""Whatever is put in, a report or one sentence comes out: inputs, stored reports, checkpoints and kills, drawn by Hypothesis.

A fixed small number of each with `make test`, many more with `make test-slow`.
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taddaa import (
    HMC,
    Covariance,
    Draws,
    Gaussian,
    InputError,
    Mean,
    Quantile,
    Report,
    Sampler,
    Settings,
    StudentT,
    Target,
    Variance,
    diagnose,
)
from taddaa.report.refit import changes, changes_text
from taddaa.show.page import report_to_html
from walks import RIGHT, TARGET, standard, walked

HERE = Path(__file__).parent


SMALL = Settings(chains=20, iterations=8, budget=2)


def many(few: int, slow: int):
    """The number of examples, for a test's own loop of Hypothesis."""
    return pytest.mark.parametrize("examples", [few, pytest.param(slow, marks=pytest.mark.slow)])


def one_sentence(error: InputError) -> None:
    assert str(error) and "\n" not in str(error) and len(str(error)) < 500, str(error)


# Inputs -------------------------------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(
        [0, 1, -1, 0.5, 1e308, -1e308, 1e-308, 10**400, math.nan, math.inf, True, None, "x", "", 1j, np.float32(2), np.array(3)]
    ),
)
arrays = st.one_of(
    numbers,
    st.lists(numbers, max_size=4),
    st.lists(st.lists(numbers, min_size=2, max_size=2), max_size=3),
    st.builds(
        lambda seed, shape: np.random.default_rng(seed).standard_normal(shape),
        st.integers(0, 9),
        st.sampled_from([2, (2, 2), (30, 2), (0,)]),
    ),
    st.builds(lambda seed: np.ma.masked_less(np.random.default_rng(seed).standard_normal((30, 2)), 0), st.integers(0, 9)),
)
anything = st.one_of(
    arrays, st.text(max_size=5), st.dictionaries(st.text(max_size=2), numbers, max_size=2), st.just(standard), st.just(object())
)
FIELDS = [*Settings.__dataclass_fields__]
MAKERS = {
    "Gaussian": lambda a, b, c: Gaussian(a, b),
    "covariance": lambda a, b, c: Gaussian(a, covariance=b),
    "StudentT": StudentT,
    "Draws": lambda a, b, c: Draws(a),
    "Sampler": lambda a, b, c: Sampler(lambda key, count: a, 2, mean=b, covariance=c),
    "Target": lambda a, b, c: Target(standard, 2, names=a, data=b),
    "dim": lambda a, b, c: Target(standard, a),
    "Mean": lambda a, b, c: Mean(of=a, name=b),
    "Quantile": lambda a, b, c: Quantile(a),
    "Covariance": lambda a, b, c: Covariance(a, b),
    "HMC": lambda a, b, c: HMC(a, b),
    "read": lambda a, b, c: Report.from_json(a),
}


@many(400, 20_000)
def test_any_argument_is_taken_or_refused_in_one_sentence(examples):
    @settings(max_examples=examples)
    @given(st.sampled_from(list(MAKERS)), anything, anything, anything)
    def make(what, a, b, c):
        try:
            MAKERS[what](a, b, c)
        except InputError as error:
            one_sentence(error)

    @settings(max_examples=examples)
    @given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=3), st.integers(1, 10**6))
    def choose(fields, dim):
        try:
            Settings(**fields).plan(dim).refuse_too_large(dim)
        except InputError as error:
            one_sentence(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's about what is then refused
        make()
        choose()


functionals = st.lists(
    st.one_of(
        st.builds(Mean),
        st.builds(Variance),
        st.builds(Quantile, st.floats(0.001, 0.999)),
        st.builds(Covariance, st.sampled_from(["a", 0, "z", 5]), st.sampled_from(["b", 1, -1])),
        st.builds(
            lambda k: Mean(of=[jnp.sum, jnp.max, lambda x: x, lambda x: x[0] / 0, lambda x: x * 1j, lambda x: "text"][k]), st.integers(0, 5)
        ),
    ),
    max_size=3,
)
approximations = st.one_of(
    st.builds(lambda m, s: Gaussian([m, 0.0], [s, 1.0]), st.floats(-1e40, 1e40), st.floats(1e-320, 1e300)),
    st.builds(lambda s, df: StudentT([0.0, 0.0], [s, 1.0], df), st.floats(1e-3, 1e3), st.floats(0.05, 1e9)),
    st.builds(
        lambda seed, size, s: Draws(s * np.random.default_rng(seed).standard_normal((size, 2))),
        st.integers(0, 9),
        st.integers(20, 60),
        st.floats(1e-300, 1e300),
    ),
)


@many(40, 1000)
def test_any_diagnosis_gives_a_report_or_one_sentence(examples):
    """A report whose text, page and JSON can be made, and whose rows are numbers where the verdict says something."""

    @settings(max_examples=examples)
    @given(approximations, st.one_of(st.none(), functionals), st.integers(0, 2**64), st.sampled_from([None, "inflated", 5]))
    def run(approximation, asked, seed, other_starts):
        try:
            report = diagnose(TARGET, approximation, asked, SMALL, seed, other_starts=other_starts)
        except InputError as error:
            one_sentence(error)
            return
        shown(report)
        assert Report.from_json(report.to_json()).rows[0].verdict == report.rows[0].verdict
        for row in report.rows:
            assert row.verdict != "error" or (row.bound > 0 and math.isfinite(row.bound))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run()


def shown(report: Report) -> None:
    """All that a reader may do with a report."""
    assert all(letter.isprintable() or letter == "\n" for letter in str(report))
    report_to_html(report).encode()
    report.to_dataframe()
    changes_text(WHOLE, report, changes(WHOLE, report))
    changes_text(report, WHOLE, changes(report, WHOLE))


WHOLE = diagnose(TARGET, RIGHT, settings=SMALL)

# Damaged reports ----------------------------------------------------------------------------------------------------------

HOSTILE = st.one_of(
    numbers.filter(lambda value: not isinstance(value, (complex, np.ndarray, np.generic))),
    st.text(max_size=6),
    st.sampled_from(["NaN", "Infinity", "error", "\x1b[2J", "\ud800", [], {}, [[1]], [None], {"a": 1}, [1, "x"]]),
)


def places(value, path=()):
    """Every place in a JSON value, of long lists the first few."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [path, *(place for key, part in inside for place in places(part, (*path, key)))]


CONTENT = json.loads(WHOLE.to_json())
PLACES = [place for place in places(CONTENT) if place]


def with_damage(text: str, place, how: str, value) -> str:
    content = json.loads(text)
    at = content
    for key in place[:-1]:
        at = at[key]
    if how == "put":
        at[place[-1]] = value
    elif how == "drop":
        del at[place[-1]]
    elif isinstance(at, list):
        at.insert(place[-1], at[place[-1]])
    return json.dumps(content)


@many(400, 20_000)
def test_any_damaged_report_is_refused_in_one_sentence_or_can_be_shown(examples):
    text = WHOLE.to_json()

    @settings(max_examples=examples)
    @given(st.sampled_from(PLACES), st.sampled_from(["put", "put", "put", "drop", "twice"]), HOSTILE)
    def damage(place, how, value):
        read(with_damage(text, place, how, value))

    @settings(max_examples=examples)
    @given(
        st.integers(0, len(text) - 1), st.integers(0, 3), st.sampled_from(["", "}", "]", ",", "1e999", "NaN", "9" * 5000, "\0", "[" * 9999])
    )
    def cut(place, length, put):
        read(text[:place] + put + text[place + length :])

    def read(damaged):
        try:
            report = Report.from_json(damaged)
        except InputError as error:
            one_sentence(error)
        else:
            shown(report)

    damage()
    cut()


# Damaged checkpoints and kills --------------------------------------------------------------------------------------------


@many(60, 3000)
def test_any_damaged_checkpoint_is_refused_or_changes_nothing(examples, tmp_path):
    path = tmp_path / "run.ckpt"
    expected = walked(path)
    whole = path.read_bytes()
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}

    @settings(max_examples=examples)
    @given(st.integers(0, len(whole) - 1), st.binary(max_size=4), st.sampled_from([0, 1, 4, 100, 10**9]))
    def damage(place, put, length):
        path.write_bytes(whole[:place] + put + whole[place + length :])
        read()

    @settings(max_examples=examples)
    @given(st.sampled_from(sorted(arrays)), st.integers(0, 10**6), st.sampled_from([0, 1, -1, math.nan, math.inf]))
    def rewrite(name, place, value):
        """With all of zip's own sums right."""
        changed = {key: array.copy() for key, array in arrays.items()}
        flat = changed[name].reshape(-1)
        if not flat.size or (flat.dtype.kind != "f" and not math.isfinite(value)):
            return
        flat[place % flat.size] = value if value >= 0 or flat.dtype.kind != "u" else 1
        with path.open("wb") as file:
            np.savez(file, **changed)
        read()

    def read():
        try:
            assert walked(path) == expected
        except InputError as error:
            one_sentence(error)

    damage()
    rewrite()


def same(mine, theirs) -> bool:
    """Equal, numbers up to rounding: another process may have compiled another order of sums."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-9)
    return mine == theirs


@many(1, 25)
def test_any_kill_ends_in_the_identical_report(examples, tmp_path):
    """A real process, killed again and again at random moments until one comes to the end."""
    expected, draw = walked(), random.Random(0)
    script = "import sys, time, walks; walks.walked(sys.argv[1], progress=lambda _: time.sleep(0.1)); print('done')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    for number in range(examples):
        path = tmp_path / f"{number}.ckpt"
        for _ in range(3):
            child = subprocess.Popen([sys.executable, "-c", script, str(path)], env=environment, stdout=subprocess.DEVNULL)
            begun = time.monotonic()
            while child.poll() is None and not path.exists() and time.monotonic() - begun < 60:
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 0.6))
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert same(walked(path), expected)
