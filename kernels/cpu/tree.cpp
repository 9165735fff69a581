#include "tasc/tree.h"  // header only; compiled here once so that warnings are seen
