// What instructions that only move elements make of them: shares of tensors in collectives, and the
// order of blocked buffers. Not where they stand: residue_memory.h.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "verify/residue_memory.h"

namespace fourfold::verify {

/// All of them, one after another.
Cells joined(std::span<const Cells> shares);
/// Equal shares; none where the elements do not divide so.
std::vector<Cells> divided(const Cells& whole, std::size_t count);

/// The elements of a plain tensor in the order of a blocked buffer, zero where this has padding; or
/// those of a blocked buffer in the order of a plain one. Nothing where the two slices are not one
/// tensor.
std::optional<Cells> packed(const Program& program, const Pack& what, const Cells& from);
std::optional<Cells> unpacked(const Program& program, const Unpack& what, const Cells& from);

}  // namespace fourfold::verify
