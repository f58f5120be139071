"""What one of several processes does in test_processes.py: PROCESS PORT FOLDER SCENE, two processes, one device each."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import jax

if __name__ == "__main__":
    PROCESS, PORT, FOLDER, SCENE = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    jax.distributed.initialize(f"127.0.0.1:{PORT}", 2, PROCESS, heartbeat_timeout_seconds=20, initialization_timeout=120)
    jax.config.update("jax_enable_x64", True)
else:
    PROCESS = 0

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from devices import APPROXIMATION, DIM, PRECISION, SD, X, Y, logistic, positive, settings, total, with_the_noise_of_accelerators
from known import gaussian_logdensity
from taddaa import Draws, Gaussian, InputError, LostProcess, Mean, Target, Variance, cli, diagnose

SLOW = settings(121, kernel="rwmh", preconditioner="identity", iterations=8)


def whole(**more):
    """121 chains do not divide by two; functionals of the user's scale, and a second arm."""
    target = Target(gaussian_logdensity, DIM, data=PRECISION, constrain=positive)
    return diagnose(target, APPROXIMATION, [Mean(), Variance(), Mean(of=total)], SLOW, other_starts="inflated", **more)


def regression(data):
    return diagnose(Target(logistic, DIM, data=data), Gaussian(np.zeros(DIM), 0.2 * np.ones(DIM)), settings=settings(121))


def of_both_processes(rows: np.ndarray) -> jax.Array:
    """One array of which each process holds and gives its own half."""
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    mine = np.split(rows, 2)[PROCESS]
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("rows")), mine, rows.shape)


def refusals() -> dict[str, str]:
    """Inputs that differ between the processes, one at a time, and what each of them says to it."""
    draws = np.random.default_rng(PROCESS).standard_normal((100, DIM))
    told = {}
    for name, changes in {
        "seed": {"seed": PROCESS},
        "settings": {"settings": settings(20 + PROCESS)},
        "data": {"target": Target(gaussian_logdensity, DIM, data=PRECISION * (1 + 1e-12 * PROCESS))},
        "logdensity": {"target": lambda x: -0.5 * (1 + PROCESS) * x @ x},
        "names": {"target": Target(lambda x: -0.5 * x @ x, DIM, names=list("abcd"[PROCESS:][:DIM]))},
        "approximation": {"approximation": Gaussian(np.zeros(DIM), (1 + 1e-12 * PROCESS) * SD)},
        "draws": {"approximation": Draws(draws)},
        "other_starts": {"other_starts": None if PROCESS else "inflated"},
        "functionals": {"functionals": [Mean(of=lambda x: (1 + PROCESS) * x[0])]},
        "checkpoint": {"checkpoint": FOLDER / f"{PROCESS}.ckpt"},
    }.items():
        arguments = {"target": lambda x: -0.5 * x @ x, "approximation": APPROXIMATION, "settings": settings(20), **changes}
        try:
            diagnose(**arguments)
            told[name] = ""
        except InputError as error:
            told[name] = str(error)
    return told


def together() -> None:
    def mine(name: str) -> Path:
        return FOLDER / f"{name}{PROCESS}.json"

    report = whole(checkpoint=FOLDER / "run.ckpt")
    report.to_json(FOLDER / "report.json")  # both say so, the first does it
    mine("report").write_text(report.to_json())
    mine("resumed").write_text(whole(checkpoint=FOLDER / "run.ckpt").to_json())
    mine("regression").write_text(regression({"x": of_both_processes(X), "y": of_both_processes(Y)}).to_json())
    mine("noise").write_text(with_the_noise_of_accelerators().to_json())
    if PROCESS == 1:
        (FOLDER / "1.ckpt").write_bytes((FOLDER / "run.ckpt").read_bytes())
    mine("refused").write_text(json.dumps(refusals()))
    problem = FOLDER / f"model{PROCESS}.py"
    problem.write_text("import taddaa\ndef problem():\n    return (lambda x: -0.5 * x @ x), taddaa.Gaussian([0.0, 0.0], [1.0, 1.0])\n")
    code = cli.main(["run", str(problem), "--chains", "20", "--iterations", "4", "--json", str(FOLDER / f"cli{PROCESS}.json")])
    mine("code").write_text(json.dumps(code))


def until_death(process: int) -> None:
    """The given process dies in the middle of the way; the other stores what it is told, and how soon."""
    died = FOLDER / "died"

    def die(progress):
        if process == PROCESS and progress.iteration >= 8:
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        whole(progress=die, checkpoint=FOLDER / "run.ckpt")
    except LostProcess as error:
        (FOLDER / "lost.json").write_text(json.dumps([str(error), time.time() - died.stat().st_mtime]))
        raise


if __name__ == "__main__":
    together() if SCENE == "together" else until_death(int(SCENE))
