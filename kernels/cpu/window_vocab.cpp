#include "tasc/window_vocab.h"  // header only; compiled here once so that warnings are seen
