// What the tests of traffic share: the bytes that rings send, in whole numbers, and what a program
// sends, by layer or by class. Header only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "program/traffic.h"

namespace fourfold::compile {

/// Parts of a byte: whole for groups of up to 36 ranks, products of degrees up to four.
using Parts = std::int64_t;
inline constexpr std::int64_t parts_of_a_byte = 32 * 27;
/// "z", "data-z" for a sum along both.
using ByAxis = std::map<std::string, Parts>;
using ByClass = std::map<std::string, ByAxis>;

inline std::int64_t exact(std::int64_t numerator, std::int64_t denominator) {
  EXPECT_EQ(numerator % denominator, 0) << numerator << " / " << denominator;
  return numerator / denominator;
}

/// What each of n ranks sends when `bytes` go around a ring: once for a reduce-scatter, an
/// all-gather or an all-to-all, twice for an all-reduce.
inline Parts ring(std::int64_t n, std::int64_t passes, std::int64_t bytes) {
  return exact(parts_of_a_byte * passes * (n - 1) * bytes, n);
}

inline std::int64_t passes_of(std::string_view kind) {
  EXPECT_NE(kind, "send");
  return kind == "all_reduce" ? 2 : 1;
}

// --- what a program sends

/// A tensor's name without block and the compiler's words: "attn.core/grad".
inline std::string tensor_of(std::string name) {
  if (name.starts_with("gradient/")) name = name.substr(9);
  if (name.starts_with("blocks.")) name = name.substr(name.find('.', 7) + 1);
  const auto slash = name.find('/');
  const std::string words = slash == name.npos ? "" : name.substr(slash + 1);
  return name.substr(0, slash) + (words.substr(0, words.find('/')) == "grad" ? "/grad" : "");
}

/// The sums over the tensors of `layer_of`, by layer.
inline std::map<std::string, ByAxis> sent_for_layers(
    const program::Program& program, const std::map<std::string, std::string>& layer_of) {
  std::map<std::string, ByAxis> sent;
  const auto count = [&](program::GroupId id, std::int64_t passes, const program::Slice& tensor,
                         std::int64_t bytes) {
    const program::Group& group = program.groups[id.index()];
    const auto layer = layer_of.find(tensor_of(program.buffer(tensor.buffer).name));
    if (layer == layer_of.end()) return;
    sent[layer->second][program.axes_text(group)] +=
        ring(static_cast<std::int64_t>(group.members.size()), passes, bytes);
  };
  for (const program::Instruction& i : program.instructions)
    std::visit(
        [&]<class Kind>(const Kind& what) {
          if constexpr (program::AnyCollective<Kind> && !std::is_same_v<Kind, program::AllToAll>)
            program::for_each_tensor(what, [&](const program::Slice& from, const auto& to) {
              count(what.group, std::is_same_v<Kind, program::AllReduce> ? 2 : 1, from,
                    std::max(from.bytes(), to.bytes()));
            });
        },
        i.what);
  return sent;
}

/// The axes along which something is summed up at once, those of one rank left out.
struct Together {
  std::string axes;  // "data-z"
  std::int64_t ranks = 1;
};
template <class Degree>
Together together(const std::vector<std::string>& axes, Degree&& degree) {
  Together result;
  for (const std::string& axis : axes) {
    if (degree(axis) == 1) continue;
    result.axes += (result.axes.empty() ? "" : "-") + axis;
    result.ranks *= degree(axis);
  }
  return result;
}

inline ByClass sent_by_class(const program::Program& program) {
  std::map<std::string, std::int64_t> ranks;
  for (const program::Group& group : program.groups)
    ranks[program.axes_text(group)] = static_cast<std::int64_t>(group.members.size());
  ByClass sent;
  for (const program::Traffic& entry : program::traffic(program)) {
    const Parts parts = ring(ranks.at(entry.axis), passes_of(entry.kind), entry.payload_bytes);
    sent[entry.label][entry.axis] += parts;
    // The doubles are sums of one rounded product for each tensor of each call: for so many at
    // most.
    constexpr double most_tensors = 10'000;
    EXPECT_NEAR(parts_of_a_byte * entry.sent_bytes, static_cast<double>(parts),
                most_tensors * 2.3e-16 * static_cast<double>(parts));
  }
  return sent;
}

}  // namespace fourfold::compile
