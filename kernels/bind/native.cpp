// The Python face of tasc_cpu: one bind_* function a header, nothing else.
#include "bind.h"

NB_MODULE(_native, m) {
  bind_acceptance(m);
  bind_context_match(m);
  bind_merge_search(m);
  bind_ngram_count(m);
  bind_recycling(m);
  bind_ngram_draft(m);
  bind_suffix_draft(m);
  bind_tree(m);
  bind_verify(m);
  bind_window_vocab(m);
  bind_chains(m);
  bind_dense(m);
  bind_layer(m);
  bind_certified_head(m);
}
