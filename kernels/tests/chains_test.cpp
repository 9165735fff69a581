#include "tasc/chains.h"

#include <cassert>
#include <chrono>
#include <stdexcept>
#include <thread>
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
  auto chains = tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(2), Ids{9, 9}, 0, nullptr);
  assert((chains == std::vector<Ids>{{3, 50}, {3, 50}}));
  chains = tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>{{}, {3, 7, 1}}, Ids{0, 9}, 0, nullptr);
  assert((chains == std::vector<Ids>{{}, {2, 3}}));

  std::vector<tasc::LookupDrafter> many(50, first);
  std::vector<tasc::LookupDrafter*> each;
  for (tasc::LookupDrafter& drafter : many) each.push_back(&drafter);
  tasc::ThreadPool pool(3);
  pool.for_each(1, [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(9)); });  // the next is shared
  for (const auto& tokens : {Ids{}, Ids{50}, Ids{1, 2}}) {
    const std::vector<Ids> read(many.size(), tokens);
    Ids budgets;
    for (size_t i = 0; i < many.size(); ++i) budgets.push_back(static_cast<int32_t>(i % 5));
    const auto shared = tasc::step_chains<tasc::LookupDrafter>(each, read, budgets, 0, &pool);
    for (const int32_t token : tokens) first.append(token);
    for (size_t i = 0; i < many.size(); ++i) {
      Ids alone;
      tasc::draft_chain(first, budgets[i], 0, alone);
      assert(shared[i] == alone);
    }
  }

  assert(tasc::LookupDrafter(2, 0, 50).draft(3).tokens.empty());
  assert(first.draft(-1).tokens.empty());
  assert(refused([] { tasc::LookupDrafter(0, 0, 50); }));
  assert(refused([&] { tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(2), Ids{1}, 0, nullptr); }));
  assert(refused([&] { tasc::step_chains<tasc::LookupDrafter>(both, std::vector<Ids>(1), Ids{1, 1}, 0, nullptr); }));
}
