"""Building from the sources where it cannot work."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CMAKE = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")


@pytest.mark.skipif(CMAKE is None, reason="no cmake")
@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_a_build_without_a_compiler_that_works_says_what_to_install(tmp_path, compiler):
    ninja = shutil.which("ninja", path=str(Path(sys.executable).parent))
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    ended = subprocess.run(
        [CMAKE, "-S", Path(__file__).parents[1], "-B", tmp_path, *generator],
        env={"PATH": "/usr/bin:/bin", "CXX": compiler},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    errors = ended.stderr.split("CMake Error")[1:]
    assert len(errors) == 1, ended.stderr
    assert "install g++ or clang++, or a wheel of tasc" in " ".join(errors[0].split())
