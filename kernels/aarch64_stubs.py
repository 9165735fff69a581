"""Writes libraries in the names of CUDA's, so that torch's wheel for aarch64 loads in an emulator.

The wheels on PyPI need CUDA's libraries, which are gigabytes. Each function that they import from
these returns 100 here, "no CUDA device".

    python kernels/aarch64_stubs.py SITE-PACKAGES/torch/lib FOLDER
"""

import re
import subprocess
import sys
from pathlib import Path

TOOL = "aarch64-linux-gnu-"
CUDA = re.compile(r"lib(cu|nv|nccl)")
SYSTEM = re.compile(r"GLIBC|GCC|CXXABI|GFORTRAN|GOMP|OMP|NVPL|lib(gomp|gfortran|nvpl|m)")
OWN = "cu[A-Z]|cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|cupti|nccl|nvrtc|nvshmem"
UNVERSIONED = re.compile(rf"UND ((?:__)?(?:{OWN})\w*)\s")


def read(flag: str, library: Path) -> str:
    """Return what readelf prints of ``library``."""
    command = [f"{TOOL}readelf", "-W", flag, library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def link(source: Path, name: str, folder: Path, *libraries: Path) -> None:
    """Link ``source`` as the library ``name``, which loads ``libraries``."""
    options = ["-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,--no-as-needed,-soname,{name}"]
    command = [f"{TOOL}gcc", *options, source, *libraries, "-o", folder / name]
    subprocess.run(command, check=True)


def main() -> None:
    """Write the libraries."""
    torch, folder = Path(sys.argv[1]), Path(sys.argv[2])
    needed: set[str] = set()
    functions: set[str] = set()
    own = {path.name for path in torch.iterdir()}
    for library in torch.glob("*.so*"):
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", read("-d", library)))
        symbols = read("--dyn-syms", library)
        versioned = re.findall(r"UND (\w+)@([\w.]+)", symbols)
        functions |= {name for name, version in versioned if not SYSTEM.match(version)}
        functions |= set(UNVERSIONED.findall(symbols))
    folder.mkdir(parents=True, exist_ok=True)
    source, empty, common = folder / "functions.c", folder / "empty.c", "libno_cuda.so"
    source.write_text("".join(f"int {name}() {{ return 100; }}\n" for name in sorted(functions)))
    empty.write_text("")
    link(source, common, folder)
    for name in filter(CUDA.match, needed - own):
        link(empty, name, folder, folder / common)


if __name__ == "__main__":
    main()
