#include "tasc/argmax.h"
#include "tasc/compact.h"
#include "tasc/rejection.h"  // header only; compiled here once so that warnings are seen
