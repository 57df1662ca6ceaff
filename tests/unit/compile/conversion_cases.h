// Random pairs of states of small tensors on small meshes: cuts in any legal order, with and
// without stated strides, padding, partial sums and maxima. Header only.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "op/sharding.h"

namespace fourfold::compile {

using Cuts = std::vector<op::Cut>;

inline Cuts cuts_of(const op::Sharding& state, std::size_t dim) {
  return dim < state.dims.size() ? state.dims[dim] : Cuts();
}

struct ConversionCase {
  Mesh mesh;
  Shape shape;
  op::Sharding from, to;
};

class ConversionCases {
 public:
  explicit ConversionCases(std::uint32_t seed) : random_(seed) {}

  ConversionCase next() {
    ConversionCase c;
    c.mesh.name = "main";
    std::int64_t ranks = 1;
    for (const std::int64_t axis : numbers(1 + pick(4), 1, 3)) {
      c.mesh.axes.push_back({format("a{}", c.mesh.axes.size()), axis});
      ranks *= axis;
    }
    for (std::int64_t i = 0; i < ranks; ++i)
      c.mesh.ranks.push_back(Rank(static_cast<std::size_t>(i)));
    for (const std::int64_t size : numbers(1 + pick(4), 1, 7)) c.shape.push_back(size);
    // Sums and maxima do not commute: a tensor is partial in one of them.
    const op::Reduction reduction = pick(3) == 0 ? op::Reduction::max : op::Reduction::sum;
    for (std::size_t axis = 0; axis < c.mesh.axes.size(); ++axis)
      if (pick(3) == 0) c.from.partial.push_back({AxisId(axis), reduction});
    for (const op::Partial& partial : c.from.partial)
      if (pick(3) == 0) c.to.partial.push_back(partial);
    cut(c, c.from);
    cut(c, c.to);
    return c;
  }

 private:
  std::int64_t pick(std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_);
  }
  std::vector<std::int64_t> numbers(std::int64_t count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(low + pick(high - low + 1));
    return list;
  }

  /// Gives each axis that is not partial to a dim or to none, in any order.
  void cut(const ConversionCase& c, op::Sharding& sharding) {
    std::vector<std::size_t> axes(c.mesh.axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    std::shuffle(axes.begin(), axes.end(), random_);
    sharding.dims.resize(c.shape.rank());
    for (const std::size_t axis : axes)
      if (pick(4) != 0 && sharding.partial_on(AxisId(axis)) == nullptr)
        sharding.dims[static_cast<std::size_t>(pick(static_cast<std::int64_t>(c.shape.rank())))]
            .push_back({AxisId(axis), std::nullopt});
    for (std::size_t dim = 0; dim < c.shape.rank(); ++dim)
      set_strides(sharding.dims[dim], c.shape[dim], c.mesh);
    if (std::all_of(sharding.dims.begin(), sharding.dims.end(),
                    [](const auto& cuts) { return cuts.empty(); }))
      sharding.dims.clear();
  }

  /// Where several cuts leave padding, each has to state its stride; where not, it may.
  void set_strides(std::vector<op::Cut>& cuts, std::int64_t size, const Mesh& mesh) {
    std::int64_t parts = 1;
    for (const op::Cut& cut : cuts) parts *= mesh.axes[cut.axis.index()].size;
    const bool has_padding = size % parts != 0;
    if (!(has_padding && cuts.size() > 1) && pick(3) != 0) return;
    std::int64_t stride = (size + parts - 1) / parts + (pick(3) == 0 ? 1 : 0);
    for (std::size_t i = cuts.size(); i-- > 0;) {
      cuts[i].stride = stride;
      stride *= mesh.axes[cuts[i].axis.index()].size;
    }
  }

  std::mt19937 random_;
};

inline std::string text_of(const ConversionCase& c) {
  std::string axes;
  for (const Axis& axis : c.mesh.axes) axes += format(" {} {}", axis.name, axis.size);
  return format("{} -> {} on{}", op::to_string(c.shape, c.from, c.mesh),
                op::to_string(c.shape, c.to, c.mesh), axes);
}

}  // namespace fourfold::compile
