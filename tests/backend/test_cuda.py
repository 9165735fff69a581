import shutil
import subprocess
from importlib.resources import files

import pytest

from tasc.backend import cuda
from tasc.errors import UnavailableError


def test_the_library_is_built_where_nvcc_is():
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc: the CUDA library is not built")
    assert (files("tasc") / "libtasc_cuda.so").is_file()
    library = cuda.library()
    assert library is not None
    for name in (*cuda.SIGNATURES, "tasc_cuda_error_string"):
        assert getattr(library, name)


def test_it_shows_its_own_names_only_and_holds_code_for_both_architectures():
    path = files("tasc") / "libtasc_cuda.so"
    if not path.is_file() or shutil.which("nm") is None:
        pytest.skip("needs libtasc_cuda and nm")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines() if " T " in line}
    assert names == {*cuda.SIGNATURES, "tasc_cuda_error_string"}
    held = path.read_bytes()
    assert b"sm_80" in held
    assert b"sm_90" in held


def test_a_failed_launch_becomes_one_line():
    if cuda.library() is None:
        pytest.skip("libtasc_cuda was not built")
    with pytest.raises(UnavailableError, match="invalid argument"):
        cuda.launch("tasc_verify_greedy", None, 7, 10, None, None, 0, None, None, None)


def test_a_stale_or_damaged_library_is_one_line_and_not_usable(tmp_path, monkeypatch):
    stale = tmp_path / "libtasc_cuda.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    source = tmp_path / "old.c"
    source.write_text("int tasc_ancestor_bits(void) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", stale, source], check=True)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"not a library")
    for path, what in ((stale, "tasc_verify_greedy"), (damaged, "damaged.so")):
        with pytest.raises(UnavailableError, match=f"(?s)stale or damaged.*{what}.*make install"):
            cuda.load(path)
    monkeypatch.setattr(cuda, "files", lambda _: tmp_path)
    cuda.library.cache_clear()
    try:
        found = cuda.state()
        from tasc.commands.doctor import DoctorOptions, examine

        assert examine(DoctorOptions())["kernels"]["cuda"] == found
    finally:
        cuda.library.cache_clear()
    assert found.startswith("not usable: ")
    assert "\n" not in found
