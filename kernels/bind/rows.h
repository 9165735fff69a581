// Rows of logits of any float dtype, as the routines that read them take them.
#pragma once
#include "bind.h"
#include "tasc/float16.h"

using Rows32 = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows16 = nb::ndarray<const uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Runs work(logits) on 32-bit rows, or on 16-bit ones (float16 where `half`, else bfloat16).
template <class Work>
void on_rows(const Rows32& rows, bool, const Work& work) {
  work(rows.data());
}
template <class Work>
void on_rows(const Rows16& rows, bool half, const Work& work) {
  if (half)
    work(reinterpret_cast<const tasc::Float16*>(rows.data()));
  else
    work(reinterpret_cast<const tasc::BFloat16*>(rows.data()));
}
