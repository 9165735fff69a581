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
  double lambda = 0.75;        // the corpora's share where both sides match equally long contexts
  double gain = 0;             // a source weighs e^(gain * length of its longest matching context)
  double discount = 0;         // absolute discount of the tables' counts; 0: longest match alone
  int width = 0;               // children of one node at most; 0 is no limit, 1 makes a chain
  double min_probability = 0;  // paths less likely than this are not proposed
  bool match = false;          // the texts' longest matches are sources, too
  bool fallback = true;        // where nothing matches, propose the corpus' frequent tokens
  int32_t end = -1;            // a node with this token has no children
};

struct DraftTree {
  std::vector<int32_t> tokens, parents;
  std::vector<float> probabilities;  // of the path to each node under the mixture
};

// What a token was drafted from; matches count with the text they are in. kOther: not told.
enum class Source : uint8_t { kCorpus, kMemory, kPrompt, kLogits, kOther };

struct Proposal {
  int32_t token;
  double probability;
};

// One sequence's drafter. The distribution after a context is
//   sum over sources of w_s p_s,  w_s ~ share_s * e^(gain * length_s),  0 where nothing matches,
// with the corpora's shares adding to lambda and the tables' to 1 - lambda; shared weights are learnt
// from there, token by token of the outputs. A source whose remaining back-off weight falls below 1/16
// is not followed to shorter contexts, one that weighs less than 1/32 is not asked.
class NgramDrafter {
 public:
  // memory and weights may be null; memory is read, never written.
  NgramDrafter(std::vector<const NgramIndex*> corpora, const NgramTable* memory, SourceWeights* weights, bool prompt,
               int n_max, const DraftOptions& options);

  // What the target said is a source from now on; it is read, never written.
  void recycle(const RecycledLogits* logits) { logits_ = logits; }
  // A draft of another kind is a source along its paths, from here until another one is taken.
  void guess(std::span<const int32_t> tokens, std::span<const int32_t> parents, std::span<const float> probabilities) {
    guess_.take(tokens, parents, probabilities);
    now_.guessed = Guess::kBegin;
  }
  void start(std::span<const int32_t> prompt, bool mark);
  void append(int32_t token);
  // From defer_updates() to apply_updates() the weights, which are shared, stay as they are.
  void defer_updates() { deferred_ = true; }
  void apply_updates();
  DraftTree draft(int budget);           // best-first: no tree of this size has a larger mass
  bool chains() const { return options_.width == 1; }
  // Where drafts are chains: adds the tokens of draft(budget) whose path is at least that likely.
  void chain(int budget, double least, std::vector<int32_t>& tokens);
  std::vector<Proposal> distribution();           // after the sequence, falling probability
  std::vector<int32_t> take_output() { return std::exchange(output_, {}); }  // appended since the start
  // Of each token appended since the start, the source that most of its probability came from, as its
  // weights are learnt; where they are not and there are several, none is told.
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
    const RecycledLogits::Row* said = nullptr;  // of logits
  };
  struct Update {
    size_t source, bucket;
    double gradient;
  };
  struct Bound {
    double floor;  // tokens that are less likely are not needed
    bool best;     // nor those behind the likeliest one
    double least;  // nor what a table adds to a token, where it is less
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
  std::vector<int32_t> output_;         // not taken yet
  std::vector<uint8_t> sources_;        // of the output
  uint64_t generation_ = 0;             // of the memory, when its state was taken
  std::vector<Active> active_;          // what weighs something, the matches first
  SourceWeights fixed_;
  SourceWeights* learnt_;               // null: the fixed ones stay
  bool deferred_ = false;
  std::vector<Update> updates_;         // of the weights, not applied yet
  Source only_;                         // where they stay
  bool prompting_ = true;               // what a prompt holds is not what drafts are for
  std::vector<Candidate> open_;         // from head_ on: falling probability, room_ at most
  size_t head_ = 0, room_ = 0;          // room_: nodes still wanted
  std::vector<State> states_;           // (nodes,) of expanded nodes
  std::vector<Candidate> fresh_;
};

}  // namespace tasc
