#include "tasc/chains.h"

#include <cassert>
#include <stdexcept>
#include <vector>

#include "tasc/context_match.h"

using tasc::DraftTree;
using Ids = std::vector<int32_t>;

template <class Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

int main() {
  const DraftTree tree{{4, 5, 6, 7, 8}, {-1, -1, 0, 2, 2}, {0.9f, 0.8f, 0.5f, 0.2f, 0.1f}};
  for (const auto& [least, expected] : {std::pair{0.0, Ids{4, 6, 7}}, {0.3, Ids{4, 6}}, {0.95, Ids{}}}) {
    Ids path;
    tasc::follow_first(tree, least, path);
    assert(path == expected);
  }

  tasc::LookupDrafter first(2, 0, 50), second(2, 2, 50);
  const std::vector<tasc::LookupDrafter*> both = {&first, &second};
  const Ids text = {1, 2, 3, 50, 1, 2};
  first.start(text), second.start(text);
  auto chains = tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(2), Ids{9, 9}, 0);
  assert((chains == std::vector<Ids>{{3, 50}, {3, 50}}));
  chains = tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>{{}, {3, 7, 1}}, Ids{0, 9}, 0);
  assert((chains == std::vector<Ids>{{}, {2, 3}}));

  assert(tasc::LookupDrafter(2, 0, 50).draft(3).tokens.empty());
  assert(first.draft(-1).tokens.empty());
  assert(refused([] { tasc::LookupDrafter(0, 0, 50); }));
  assert(refused([&] { tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(2), Ids{1}, 0); }));
  assert(refused([&] { tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(1), Ids{1, 1}, 0); }));
}
