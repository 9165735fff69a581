// The merge search of TASC-ft: Algorithm 1 of Tsur et al., "Task-Centric Acceleration...", section 4.1.
// Incremental: the corpus is a linked list, every n-gram keeps the positions where it was seen, and a
// lazy max-heap holds upper bounds of the rewards; nothing is ever counted again from the start.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tasc {

struct MergeInput {
  std::span<const int32_t> tokens;       // (T) ids below the vocabulary's size
  std::span<const int64_t> offsets;      // (S + 1) sample s is tokens[offsets[s], offsets[s + 1])
  std::span<const int64_t> weights;      // (S) multiplicity of each sample, 1 .. 2^31 - 1
  std::span<const uint8_t> strings;      // the strings of all base tokens, one after another
  std::span<const int64_t> string_ends;  // (V + 1) token v spells strings[ends[v], ends[v + 1])
  std::span<const int32_t> special;      // ids that no n-gram may hold; nor one with an empty string
  std::span<const uint8_t> boundaries;   // (T) 1 where a pre-token starts; empty = no restriction
};

struct MergeOptions {
  int64_t budget = 0;         // tokens to add at most
  int n_max = 4;              // 2 .. 16
  double alpha = 0.05;        // accepted when PCS < alpha
  bool conditional = false;   // PCS given the preceding n - 1 tokens
  int64_t min_frequency = 2;  // >= 1
  int64_t min_reward = 0;     // the search ends before an n-gram that saves fewer tokens; >= 0
};

struct MergeRecord {
  std::vector<int32_t> ids;
  int32_t new_id = 0;
  std::string text;
  int64_t frequency = 0;  // weighted, non-overlapping
  int64_t inner = 0;      // of these: inside one pre-token without being the whole of it
  double pcs = 0;
  int64_t tokens = 0;  // weighted length of the corpus after this merge
  double h2 = 0;       // Renyi-2 entropy of the tokens after this merge, bits
  double h1 = 0;       // Shannon entropy, bits
};

// A second spelling of a token that was added before: replaced at no cost.
struct MergeAlias {
  std::vector<int32_t> ids;
  int32_t new_id = 0;
  int64_t frequency = 0;
  int64_t inner = 0;
  int64_t after = 0;  // merges accepted before it
};

struct MergeOutcome {
  std::vector<MergeRecord> merges;
  std::vector<MergeAlias> aliases;
  int64_t tokens_before = 0, tokens_after = 0;
  double h2_before = 0, h1_before = 0;
  int64_t rejected = 0;  // by PCS
  int64_t refused = 0;   // by admit
};

// Asked once for each n-gram about to be tested; false = never propose it.
using Admit = std::function<bool(std::string_view)>;
// Called now and then with the number of accepted merges; what it throws ends the search.
using Tick = std::function<void(int64_t)>;

// Throws std::invalid_argument when the input does not fit together or exceeds a limit. Returns fewer
// than budget merges when no candidate is left. Order of equals: larger n, then smaller ids.
MergeOutcome merge_search(const MergeInput& input, const MergeOptions& options,
                          const Admit& admit = {}, const Tick& tick = {});

}  // namespace tasc
