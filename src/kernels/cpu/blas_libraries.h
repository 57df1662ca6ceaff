// Libraries with the interface of a BLAS, of which a build has OpenBLAS and those that it found.
#pragma once

#include <span>
#include <string>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

/// Products of matrices in f32 and f64, without workspace.
struct BlasLibrary {
  const char* implementation;  // what tables of kernels call it: "openblas"
  const char* name;            // what people call it: "OpenBLAS"
  std::string (*version)();
  Run (*prepare)(const op::Contract& op, const Problem& problem);
};

/// OpenBLAS first.
std::span<const BlasLibrary> blas_libraries();

/// Null if this build has none of that name.
const BlasLibrary* find_blas_library(std::string_view implementation);

}  // namespace fourfold::kernels::cpu
