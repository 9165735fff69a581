// The instruction sets that tests try; a machine has some of them.
#pragma once

constexpr const char* kInstructions[] = {"portable", "neon", "neondot", "neonbf16", "avx2", "avx512", "avx512bf16"};
