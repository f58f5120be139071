"""Every example, in a process of its own: which framework, which version, how many lines of the user's, how many seconds.

python benchmarks/frameworks.py                     # all that is installed
python benchmarks/frameworks.py regression_zuko     # some
python benchmarks/frameworks.py --page              # also writes the table to docs/examples.md; rows of what is not installed stay
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "examples.md"
BEGIN, END = "<!-- frameworks: written by benchmarks/frameworks.py, do not edit -->", "<!-- end of frameworks -->"
# The example → what it shows, and the packages whose versions matter.
EXAMPLES = {
    "regression_jax": ("JAX", ["jax"]),
    "eight_schools_numpyro": ("NumPyro", ["numpyro"]),
    "mixture_numpyro": ("NumPyro, discrete sites", ["numpyro", "funsor"]),
    "eight_schools_pymc": ("PyMC", ["pymc"]),
    "regression_bambi": ("Bambi", ["bambi", "pymc"]),
    "eight_schools_stan": ("Stan", ["bridgestan"]),
    "eight_schools_pyro": ("Pyro", ["pyro-ppl", "torch"]),
    "regression_flowjax": ("flowjax", ["flowjax"]),
    "regression_distrax": ("distrax", ["distrax"]),
    "regression_tfp": ("TFP on JAX", ["tfp-nightly"]),
    "regression_pytorch": ("PyTorch", ["torch"]),
    "regression_zuko": ("zuko", ["zuko", "torch"]),
    "regression_sbi": ("sbi", ["sbi", "torch"]),
    "regression_bayesflow": ("BayesFlow", ["bayesflow", "keras"]),
    "regression_numpy": ("NumPy", ["numpy"]),
}
HEAD = """\
| | versions | example | your lines | fit, s | diagnosis, s | of these compiling | quantities | verdict |
|---|---|---|---|---|---|---|---|---|
"""


def lines_of(path: Path) -> int:
    """Statements that name taddaa: what its use adds to a script that has a model and a fit."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    leaves = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    named = lambda node: any(isinstance(n, ast.Name) and n.id == "taddaa" for n in ast.walk(node))  # noqa: E731
    imports = lambda node: isinstance(node, ast.Import) and any(name.name == "taddaa" for name in node.names)  # noqa: E731
    return sum(named(node) or imports(node) for node in leaves)


def measure(name: str) -> dict:
    """In this process: the example's fit and its diagnosis, in seconds of processor time."""
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests" / "interop")]
    import taddaa

    if name == "eight_schools_stan":
        _use_compiled_stan()
    module = __import__(name)
    begun = time.process_time()
    problem = module.problem()
    fitted = time.process_time()
    arguments = problem if isinstance(problem, dict) else dict(zip(("target", "approximation"), problem, strict=True))
    report = taddaa.diagnose(**arguments, progress=False)
    done = time.process_time()
    share = report.cost.seconds_compiling / (report.cost.seconds_compiling + report.cost.seconds_running)
    return {
        "fit": fitted - begun,
        "diagnosis": done - fitted,
        "compiling": share * (done - fitted),
        "quantities": len(report.rows),
        "verdict": report.verdict,
    }


def _use_compiled_stan() -> None:
    """BridgeStan would fetch Stan's sources; the same program compiled from packages stands in."""
    import bridgestan.model
    from stan_compile import compile_stan

    bridgestan.model.compile_model = lambda file, **_: compile_stan(Path(file).read_text(encoding="utf-8"))


def row(name: str) -> str | None:
    """A row of the table; None where the framework is not installed."""
    what, packages = EXAMPLES[name]
    try:
        versions = ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    command = [sys.executable, __file__, "--one", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "KERAS_BACKEND": "jax"})
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    seconds = " | ".join(f"{found[key]:.0f}" for key in ("fit", "diagnosis", "compiling"))
    lines = lines_of(ROOT / "examples" / f"{name}.py")
    return f"| {what} | {versions} | `{name}.py` | {lines} | {seconds} | {found['quantities']} | {found['verdict']} |"


def write(rows: dict[str, str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    kept = {match[1]: match[0] for match in re.finditer(r"^\|.*?`(\w+)\.py`.*\|$", old, flags=re.MULTILINE)}
    body = "\n".join({**kept, **rows}[name] for name in EXAMPLES if name in {**kept, **rows})
    PAGE.write_text(f"{before}{BEGIN}\n\n{HEAD}{body}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples to run (default: all)")
    parser.add_argument("--page", action="store_true", help="write the table to docs/examples.md")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print("\n" + json.dumps(measure(chosen.names[0])))  # on a line of its own, whatever the framework has printed
        return
    rows = {}
    for name in chosen.names or EXAMPLES:
        found = row(name)
        if found is not None:
            print(found, flush=True)
            rows[name] = found
            if chosen.page:
                write(rows)


if __name__ == "__main__":
    main()
