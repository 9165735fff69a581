// Drafting from n-gram sources: indexes of corpora, and tables of the sequence or of past outputs.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tasc/guess.h"
#include "tasc/ngram_index.h"
#include "tasc/ngram_table.h"
#include "tasc/recycling.h"
#include "tasc/source_weights.h"

namespace tasc {

class NamedTokens;

struct DraftOptions {
  double lambda = 0.75;        // the corpora's share if both sides match equally long contexts
  double gain = 0;             // initial weight of a source: e^(gain * length of its longest matching context)
  double discount = 0;         // absolute discount of the tables' counts; 0: longest match only
  int width = 0;               // maximum number of children per node; 0: no limit, 1: a chain
  double min_probability = 0;  // less likely paths are not proposed
  bool match = false;          // the texts' longest matches are also sources
  bool fallback = true;        // without a match, propose the corpus's frequent tokens
  int32_t end = -1;            // never drafted: the step that reaches it commits it anyway
};

struct DraftTree {
  std::vector<int32_t> tokens, parents;
  std::vector<float> probabilities;  // of the path to each node under the mixture
};

// The source of a drafted token; a match counts as the text that it is in. kOther: unknown.
enum class Source : uint8_t { kCorpus, kMemory, kPrompt, kLogits, kOther };

struct Proposal {
  int32_t token;
  double probability;
};

// One sequence's drafter. The distribution after a context is
//   sum over sources of w_s p_s,  w_s ~ share_s * e^(gain * length_s),  0 without a match.
// The corpora's shares add up to lambda, the tables' to 1 - lambda. Shared weights start there and are
// learnt from each output token. A source is not followed to shorter contexts once its remaining back-off
// weight is below 1/16, and is skipped if its weight is below 1/32.
class NgramDrafter {
 public:
  // memory and weights may be null; memory is only read.
  NgramDrafter(std::vector<const NgramIndex*> corpora, const NgramTable* memory, SourceWeights* weights, bool prompt,
               int n_max, const DraftOptions& options);

  // Adds recycled logits as a source; they are only read.
  void recycle(const RecycledLogits* logits) { logits_ = logits; }
  // Adds another drafter's tree as a source from the current position, until the next call.
  void guess(std::span<const int32_t> tokens, std::span<const int32_t> parents, std::span<const float> probabilities) {
    guess_.take(tokens, parents, probabilities);
    now_.guessed = Guess::kBegin;
  }
  void start(std::span<const int32_t> prompt, bool mark);
  void append(int32_t token);
  // Between defer_updates() and apply_updates(), the shared weights do not change.
  void defer_updates() { deferred_ = true; }
  void apply_updates();
  DraftTree draft(int budget);           // best-first: no tree of this size has more probability mass
  bool chains() const { return options_.width == 1; }
  // For chains: appends the tokens of draft(budget) with a path probability of at least `least`.
  void chain(int budget, double least, std::vector<int32_t>& tokens);
  std::vector<Proposal> distribution();           // after the sequence, most probable first
  std::vector<int32_t> take_output() { return std::exchange(output_, {}); }  // appended since the start
  // The main source of each token appended since the start, found while learning the weights; kOther for
  // several sources with fixed weights.
  const std::vector<uint8_t>& sources() const { return sources_; }
  const NgramTable& local() const { return local_; }

 private:
  struct State {
    IndexState corpus[8];
    uint32_t memory, local;
    Match in_memory, in_local;
    RecentTokens recent;
    int32_t guessed = Guess::kGone;
  };
  struct Active {
    size_t source, bucket;
    double weight;
    const RecycledLogits::Row* said = nullptr;  // recycled logits only
  };
  struct Update {
    size_t source, bucket;
    double gradient;
  };
  struct Bound {
    double floor;  // skip tokens that are less likely
    bool best;     // skip all but the likeliest token
    double least;  // skip smaller contributions of a table
  };
  struct Candidate {
    float probability;
    int32_t parent, token;
    uint32_t child;
    uint32_t depth;
  };

  State step(const State& state, const Candidate& node) const;
  void step_memory(const State& state, int32_t token, State& next) const;
  NamedTokens& collect(const State& state, Bound bound);
  void collect_table(const NgramTable& table, uint32_t context, double weight, double least, NamedTokens& named) const;
  static void collect_said(const RecycledLogits::Row& said, double weight, NamedTokens& named);
  void collect_corpus(size_t source, const IndexState& state, double weight, const Bound& bound,
                      NamedTokens& named) const;
  void name(size_t source, const NgramIndex::Entry& entry, double probability, uint32_t depth,
            NamedTokens& named) const;
  void weigh(const State& state);
  Match match(size_t source, const State& state) const;
  int32_t predicted(size_t source, const State& state) const;
  double probability(const Active& active, const State& state, int32_t token) const;
  double probability(const NgramTable& table, uint32_t context, int32_t token) const;
  double probability(const NgramIndex& index, const IndexState& state, int32_t token) const;
  Source learn(int32_t token);
  void refresh();
  float floor() const;
  void offer(const Candidate& candidate);
  void expand(const State& state, int32_t node, double probability);

  std::vector<const NgramIndex*> corpora_;
  const NgramTable* memory_;
  const RecycledLogits* logits_ = nullptr;
  Guess guess_;
  bool prompt_;
  DraftOptions options_;
  NgramTable local_;
  State now_;
  std::vector<int32_t> output_;         // until take_output()
  std::vector<uint8_t> sources_;        // of the output's tokens
  uint64_t generation_ = 0;             // of the memory's state
  std::vector<Active> active_;          // sources with a weight, matches first
  SourceWeights fixed_;
  SourceWeights* learnt_;               // null: use the fixed weights
  bool deferred_ = false;
  std::vector<Update> updates_;         // deferred
  Source only_;                         // with fixed weights
  bool prompting_ = true;               // the prompt's tokens do not count as outputs
  std::vector<Candidate> open_;         // from head_: most probable first, at most room_
  size_t head_ = 0, room_ = 0;          // room_: number of nodes left to add
  std::vector<State> states_;           // (nodes,) of expanded nodes
  std::vector<Candidate> fresh_;
};

}  // namespace tasc
