import ctypes
import shutil
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
    for name in ("tasc_ancestor_bits", "tasc_verify_greedy", "tasc_cuda_error_string"):
        assert getattr(library, name)


def test_a_failed_launch_becomes_one_line():
    library = cuda.library()
    if library is None:
        pytest.skip("libtasc_cuda was not built")
    code = library.tasc_verify_greedy(None, 7, 10, None, None, 0, None, None, None)
    with pytest.raises(UnavailableError, match="invalid argument"):
        cuda.check(code)
    cuda.check(0)


@pytest.mark.gpu
def test_greedy_verification_on_the_device_equals_the_native_walk():
    import numpy as np
    import torch

    from tasc.backend.tree import greedy_walk

    library = cuda.library()
    if library is None or not torch.cuda.is_available():
        pytest.skip("needs libtasc_cuda and an NVIDIA device")
    rng = np.random.default_rng(0)
    for dtype, n in ((torch.float32, 5), (torch.bfloat16, 64), (torch.float16, 0)):
        rows = torch.from_numpy(rng.normal(size=(n + 1, 3000)).astype(np.float32))
        rows = rows.to("cuda", dtype)
        best = rows.argmax(-1).to(torch.int32).cpu().numpy()
        parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
        tokens = best[parents + 1] if n else np.empty(0, np.int32)
        device = [torch.from_numpy(x).cuda() for x in (tokens, parents)]
        argmax = torch.empty(n + 1, dtype=torch.int32, device="cuda")
        result = torch.empty(n + 2, dtype=torch.int32, device="cuda")
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = library.tasc_verify_greedy(
            rows.data_ptr(),
            cuda.DTYPES[str(dtype)],
            3000,
            *(x.data_ptr() for x in device),
            n,
            argmax.data_ptr(),
            result.data_ptr(),
            stream,
        )
        cuda.check(code)
        path = greedy_walk(tokens, parents, best)
        found = result.cpu().tolist()
        assert found[0] == len(path)
        assert found[2 : 2 + len(path)] == path.tolist()
        assert found[1] == best[path[-1] + 1 if len(path) else 0]
