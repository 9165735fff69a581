#include "tasc/ngram_table.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace tasc {
namespace {

// The upper half of the product, because the lower half does not depend on the node.
size_t hash(uint32_t node, int32_t token) {
  const uint64_t key = uint64_t{node} << 32 | static_cast<uint32_t>(token);
  return static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32);
}

}  // namespace

NgramTable::NgramTable(int n_max) : n_max_(static_cast<uint32_t>(n_max)) {
  if (n_max < 1 || n_max > 63) throw std::invalid_argument("n_max must be in 1..63, got " + std::to_string(n_max));
  clear();
}

void NgramTable::clear() {
  const bool large = 8 * nodes_.size() < slots_.size();  // for its content, so shrink it instead of clearing it
  nodes_.assign(1, Node{-1});
  slots_.assign(std::max<size_t>(large ? slots_.size() / 2 : slots_.size(), 512), Slot{});
  behind_.assign(1, 0);
  text_.clear();
  match_ = {};
  at_ = kRoot;
  ++generation_;
}

uint32_t NgramTable::find(uint32_t node, int32_t token) const {
  for (size_t at = hash(node, token) & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.child == kNone || (slot.parent == node && slot.token == token)) return slot.child;
  }
}

uint32_t NgramTable::add(uint32_t node, int32_t token) {
  if (2 * (nodes_.size() + 1) > slots_.size()) grow();
  const auto child = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(Node{token});
  nodes_.back().depth = (nodes_[node].depth + 1) & 127;
  behind_.push_back(0);
  insert({node, token, child});
  if (token >= 0) {
    to_front(node, child);
    ++nodes_[node].distinct;
  }
  return child;
}

// A new child has no neighbours yet.
void NgramTable::to_front(uint32_t node, uint32_t child) {
  const uint32_t first = nodes_[node].child;
  if (first == child) return;
  Node& moved = nodes_[child];
  if (moved.before != kNone) nodes_[moved.before].sibling = moved.sibling;
  if (moved.sibling != kNone) nodes_[moved.sibling].before = moved.before;
  moved.before = kNone;
  moved.sibling = first;
  if (first != kNone) nodes_[first].before = child;
  nodes_[node].child = child;
}

void NgramTable::insert(const Slot& slot) {
  size_t at = hash(slot.parent, slot.token) & (slots_.size() - 1);
  while (slots_[at].child != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = slot;
}

void NgramTable::grow() {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : before)
    if (slot.child != kNone) insert(slot);
}

// Each probe may miss the caches, so prefetch all of them.
void NgramTable::fetch(uint32_t context, int32_t token) const {
  for (;; context = nodes_[context].shorter) {
    __builtin_prefetch(&slots_[hash(context, token) & (slots_.size() - 1)]);
    if (context == kRoot) return;
  }
}

void NgramTable::append(int32_t token) {
  fetch(at_, token);
  uint32_t context = at_, longest = kNone, longer = kNone;
  const auto behind = static_cast<uint32_t>(text_.size() + 1);
  Match earlier;
  for (bool more = true; more;) {
    uint32_t child = find(context, token);
    if (child == kNone) child = add(context, token);
    else if (!earlier.is_there()) earlier = {behind_[child], nodes_[child].depth};
    behind_[child] = behind;
    ++nodes_[child].count;
    if (token >= 0) to_front(context, child), ++nodes_[context].total;
    if (longest == kNone) longest = child;
    if (longer != kNone) nodes_[longer].shorter = child;
    longer = child;
    more = context != kRoot;
    context = nodes_[context].shorter;
  }
  at_ = nodes_[longest].depth > n_max_ ? nodes_[longest].shorter : longest;
  match_ = chosen(match_, token, earlier);
  text_.push_back(token);
}

Match NgramTable::chosen(const Match& match, int32_t token, const Match& other) const {
  if (token < 0) return {};
  if (predicted(match) == token) return match.next();
  const Match resumed = match.behind_disagreement();
  return resumed.is_there() && other.length < 2 ? resumed : other;
}

Match NgramTable::follow(const Match& match, int32_t token, uint32_t state) const {
  return chosen(match, token, latest(state));
}

uint32_t NgramTable::step(uint32_t state, int32_t token) const {
  // Most tokens are in no context, and tokens missing at the root are missing everywhere.
  const uint32_t shortest = find(kRoot, token);
  if (shortest == kNone || state == kRoot) return shortest == kNone ? kRoot : shortest;
  fetch(state, token);
  for (;; state = nodes_[state].shorter) {
    const uint32_t child = find(state, token);
    if (child != kNone) return nodes_[child].depth > n_max_ ? nodes_[child].shorter : child;
    if (state == kRoot) return kRoot;
  }
}

uint32_t NgramTable::known(uint32_t state) const {
  while (state != kRoot && nodes_[state].total == 0) state = nodes_[state].shorter;
  return state;
}

const char* NgramTable::check_integrity() const {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    uint32_t total = 0, distinct = 0;
    for (uint32_t c = node.child, newer = kNone; c != kNone; newer = c, c = nodes_[c].sibling, ++distinct) {
      total += nodes_[c].count;
      if (nodes_[c].before != newer) return "a list of continuations is linked both ways";
      if (find(i, nodes_[c].token) != c) return "a continuation is found from its context";
    }
    if (total != node.total || distinct != node.distinct) return "a context counts its continuations";
    if (i != kRoot && nodes_[node.shorter].depth + 1 != node.depth) return "a suffix link drops one token";
    if (node.depth > n_max_ + 1) return "no context is longer than n_max";
  }
  return nullptr;
}

double NgramTable::mean_probes() const {
  size_t probes = 0;
  for (size_t at = 0; at < slots_.size(); ++at) {
    const Slot& slot = slots_[at];
    if (slot.child == kNone) continue;
    probes += 1 + ((at - hash(slot.parent, slot.token)) & (slots_.size() - 1));
  }
  return nodes_.size() > 1 ? static_cast<double>(probes) / static_cast<double>(nodes_.size() - 1) : 0;
}

}  // namespace tasc
