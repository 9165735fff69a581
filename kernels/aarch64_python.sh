#!/bin/bash
# Runs Python tests for aarch64 in an emulator: Debian's Python, wheels from PyPI, and the native module, below
# build/aarch64-python. Needs a Debian 12 with g++-aarch64-linux-gnu and qemu-user-static, and 3 GB of disk.
#   kernels/aarch64_python.sh PYTHON CPU PYTEST-ARGUMENTS
# PYTHON is the one of .venv: the wheels get its packages' versions. CPU is one of `qemu-aarch64 -cpu help`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/$1 cpu=$2
shift 2
work=$PWD/build/aarch64-python
root=$work/root site=$work/site

debs="python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev libexpat1 zlib1g libffi8 libbz2-1.0
  liblzma5 libssl3 libuuid1 libsqlite3-0 libstdc++6 libgcc-s1 libgomp1 libc6 libncursesw6 libtinfo6 libreadline8 libdb5.3
  libcrypt1"
if [ ! -e "$work/.root" ]; then  # with a state of its own, so that the machine's apt stays as it is
  mkdir -p "$work"/apt/lists/partial "$work"/apt/cache/archives/partial "$work/debs" "$root"
  : > "$work/apt/status"
  cat > "$work/apt.conf" <<EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
EOF
  export APT_CONFIG=$work/apt.conf
  apt-get update -qq
  (cd "$work/debs" && apt-get download -qq $debs)
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$root"; done
  ln -sfn ../aarch64-linux-gnu "$root/usr/include/python3.11/aarch64-linux-gnu"
  unset APT_CONFIG
  touch "$work/.root"
fi

# qemu shows the host's files below /proc and /sys unless these exist; torch ends with a signal where it reads x86's.
mkdir -p "$root/proc"
for core in 0 1; do
  midr=$root/sys/devices/system/cpu/cpu$core/regs/identification
  mkdir -p "$midr"
  echo 0x00000000410fd0c1 > "$midr/midr_el1"
  printf 'processor\t: %d\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n' $core
  printf 'CPU part\t: 0xd0c\nCPU revision\t: 1\n\n'
done > "$root/proc/cpuinfo"

if [ ! -e "$work/.site" ]; then
  packages="annotated-doc annotated-types anyio accelerate certifi charset-normalizer click filelock fsspec h11 hf-xet
    httpcore2 httpx2 huggingface_hub hypothesis idna iniconfig Jinja2 llguidance markdown-it-py MarkupSafe mdurl mpmath
    networkx numpy packaging peft pluggy psutil pyarrow pydantic pydantic_core Pygments pytest PyYAML regex requests rich
    safetensors scipy shellingham sniffio sortedcontainers sympy tokenizers torch tqdm transformers truststore typer
    typing-inspection typing_extensions urllib3"
  "$python" - $packages > "$work/requirements.txt" <<'EOF'
import sys
from importlib.metadata import version
print(*(f"{name}=={version(name).partition('+')[0]}" for name in sys.argv[1:]), sep="\n")
EOF
  platforms=$(for minor in 17 27 28 31 34 35 36; do echo "--platform manylinux_2_${minor}_aarch64"; done)
  "$python" -m pip install --quiet --no-deps --target "$site" $platforms --platform manylinux2014_aarch64 \
    --only-binary :all: --python-version 3.11 -r "$work/requirements.txt"
  "$python" kernels/aarch64_stubs.py "$site/torch/lib" "$work/stubs"
  touch "$work/.site"
fi

bin=$(dirname "$python")
cmake -S . -B build/aarch64 -G Ninja -DCMAKE_MAKE_PROGRAM="$bin/ninja" \
  -DCMAKE_TOOLCHAIN_FILE=kernels/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-Werror -DTASC_TESTS=ON \
  -DTASC_CUDA=OFF -DSKBUILD=ON -DPython_EXECUTABLE="$python" -DPython_INCLUDE_DIR="$root/usr/include/python3.11" \
  -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" > /dev/null
cmake --build build/aarch64 --target _native

rm -rf "$site/tasc" "$site/tasc_cli"
cp -rs "$PWD/tasc" "$site/tasc"
cp -rs "$PWD/cli" "$site/tasc_cli"
ln -sfn "$PWD/recipes" "$site/tasc/recipes"
cp build/aarch64/kernels/_native.*so "$site/tasc/_native.so"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
# Tests that compile run this compiler. It is a program of the host, which qemu leaves to the kernel.
mkdir -p "$work/bin"
ln -sfn "$(command -v aarch64-linux-gnu-g++)" "$work/bin/c++"

# The package with the module of aarch64 comes before the source tree, which pytest would put first.
PATH=$work/bin:$PATH QEMU_LD_PREFIX=$root QEMU_CPU=$cpu PYTHONPATH=$site:$PWD OMP_NUM_THREADS=1 "$qemu" -E "LD_LIBRARY_PATH=$work/stubs" \
  "$root/usr/bin/python3.11" -P -m pytest -p no:cacheprovider -o pythonpath=docs "$@"
