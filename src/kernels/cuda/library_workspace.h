// The part of a kernel's workspace that a library gets, at the alignment of CUDA's own allocations.
// Programs place workspaces at less, and libraries say little about what they need: cuBLAS's
// documentation has 256 bytes at "cublasSetWorkspace", cuDNN's has nothing.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace fourfold::kernels::cuda {

inline constexpr std::int64_t library_alignment = 256;

/// Bytes of a workspace in which a library has so many, wherever it begins. Nothing for nothing.
constexpr std::int64_t room_for_library(std::int64_t bytes) {
  return bytes == 0 ? 0 : bytes + library_alignment - 1;
}

/// What begins at the first multiple of library_alignment; all of an empty workspace.
inline Workspace library_part(Workspace workspace) {
  if (workspace.empty()) return workspace;
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  const std::uintptr_t beyond = address % library_alignment;
  return workspace.subspan(beyond == 0 ? 0 : library_alignment - beyond);
}

}  // namespace fourfold::kernels::cuda
