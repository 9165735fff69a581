import subprocess
from pathlib import Path

import pytest

from tasc.backend import cuda

KERNELS = Path(__file__).parents[2] / "kernels"
OPTIONS = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wno-unknown-pragmas", "-x", "c++"]


@pytest.fixture(scope="session")
def emulated(tmp_path_factory):
    library = tmp_path_factory.mktemp("cuda") / "libtasc_cuda.so"
    folders = [f"-I{KERNELS / name}" for name in ("emulation", "include")]
    sources = sorted((KERNELS / "cuda").glob("*.cu"))
    subprocess.run(["c++", *OPTIONS, *folders, *sources, "-o", library], check=True)
    found = cuda.load(library)

    def call(name, *arguments):
        given = [a.data_ptr() if hasattr(a, "data_ptr") else a for a in arguments]
        code = getattr(found, f"tasc_{name}")(*given, None)  # the default stream
        assert code == 0, found.tasc_cuda_error_string(code)

    return call
