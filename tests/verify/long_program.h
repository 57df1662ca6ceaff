// A program of any length. Header only.
#pragma once

#include <cstddef>
#include <string>

#include "base/format.h"
#include "program/builder.h"

namespace fourfold::verify {

/// Layers of ops on three streams over a ring of buffers, with a record and a wait at each change
/// of stream.
inline program::Program long_program(std::size_t layers) {
  using namespace program;
  constexpr std::size_t ring = 64;
  const Mesh mesh{"main", {{"z", 2}}, {Rank(0), Rank(1)}};
  Builder b(op::ProgramKind::train, Rank(0), mesh, {"math", "side", "z"});
  b.group({"z"});
  for (std::size_t i = 0; i < ring; ++i) {
    b.buffer(format("x{}", i), {4, 64}, {BufferRole::activation, DType::f32});
    b.buffer(format("y{}", i), {4, 64}, {BufferRole::activation, DType::f32});
  }
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {4, 64}}, {"x0"});
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string x = format("x{}", i % ring), y = format("y{}", i % ring),
                      next = format("x{}", (i + 1) % ring);
    b.op("math", op::Gelu{}, {x, y});
    b.order("math", "side");
    b.op("side", op::Add{}, {x, y, next});
    b.op("side", op::Gelu{}, {y, y});
    b.order("side", "math");
  }
  return b.finish();
}

}  // namespace fourfold::verify
