"""``python -m tests.campaign``: run the campaign in a process whose calls can be made to fail."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Compile what makes calls fail, and start ``tests.campaign.run`` with it."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        library, source = f"{folder}/faults.so", str(Path(__file__).with_name("faults.cpp"))
        flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-Wall"]
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
        settings = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": library, "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-m", "tests.campaign.run", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
