"""Compile a real Stan program from PyPI's packages alone: httpstan's stanc and headers, g++, and BridgeStan's C interface."""

import hashlib
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

SHIM = Path(__file__).with_name("stan_shim.cpp")


def compile_stan(program: str, cache: Path | None = None) -> Path:
    """The shared library of a Stan program, for `bridgestan.StanModel`; compiled once for a program and kept in a cache."""
    import bridgestan

    httpstan = Path(find_spec("httpstan").origin).parent
    cache = cache or Path(os.environ.get("TADDAA_STAN_CACHE", Path(tempfile.gettempdir()) / "taddaa-stan"))
    key = hashlib.sha256("\n".join([program, SHIM.read_text(), str(httpstan), bridgestan.__version__]).encode()).hexdigest()[:16]
    library = cache / f"model_{key}.so"
    if library.exists():
        return library
    cache.mkdir(parents=True, exist_ok=True)
    source = cache / f"model_{key}.stan"
    source.write_text(program)
    header = cache / f"model_{key}.hpp"
    subprocess.run([str(httpstan / "stanc"), "--name", f"model_{key}", "--o", str(header), str(source)], check=True)
    version = dict(zip(("BS_MAJOR", "BS_MINOR", "BS_PATCH"), bridgestan.__version__.split("."), strict=True))
    unfinished = cache / f"model_{key}.{os.getpid()}.part"
    command = [
        *("g++", "-shared", "-fPIC", "-O1", "-std=c++17", "-w", "-D_REENTRANT", "-D_GLIBCXX_USE_CXX11_ABI=0", "-DBOOST_DISABLE_ASSERTS"),
        *(f"-D{name}={value}" for name, value in version.items()),
        f'-DMODEL_CPP="{header}"',
        *("-I", str(httpstan / "include"), str(SHIM), "-o", str(unfinished)),
        *("-L", str(httpstan / "lib"), "-lsundials_cvodes", "-lsundials_idas", "-lsundials_nvecserial", "-ltbb"),
        f"-Wl,-rpath,{httpstan / 'lib'}",
    ]
    subprocess.run(command, check=True)
    unfinished.rename(library)
    return library
