# Builds for aarch64 on another machine, and runs the tests in its emulator; make test-arm uses it. The environment
# variable QEMU_CPU chooses the CPU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(TASC_AARCH64_CXX NAMES aarch64-linux-gnu-g++ REQUIRED)
find_program(TASC_AARCH64_QEMU NAMES qemu-aarch64-static qemu-aarch64 REQUIRED)
set(CMAKE_CXX_COMPILER "${TASC_AARCH64_CXX}")
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR "${TASC_AARCH64_QEMU}" -L /usr/aarch64-linux-gnu)
