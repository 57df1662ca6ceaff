#include "compile/conversion_path.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace fourfold::compile {
namespace {

using op::Cut;
using op::Sharding;
using Cuts = std::vector<Cut>;

class Path {
 public:
  Path(const Sharding& from, const Sharding& to) : now_(from), to_(to) {
    require(from.mesh == to.mesh, "a conversion stays on its mesh");
    const std::size_t rank = std::max(from.dims.size(), to.dims.size());
    now_.dims.resize(rank);
    to_.dims.resize(rank);
  }

  std::vector<Conversion> run() {
    while (now_ != to_) {
      const bool moved =
          slice() || reduce_scatter() || all_reduce() || all_to_all() || all_gather();
      require(moved, "every state can be reached from every other");
    }
    return std::move(steps_);
  }

 private:
  /// The cut that the dim needs next; none where it has all, or must lose some first.
  std::optional<Cut> next_cut(std::size_t dim) const {
    const Cuts &has = now_.dims[dim], &wants = to_.dims[dim];
    if (has.size() >= wants.size() || !std::equal(has.begin(), has.end(), wants.begin()))
      return std::nullopt;
    return wants[has.size()];
  }
  /// The cut that the dim must lose next.
  std::optional<Cut> lost_cut(std::size_t dim) const {
    const Cuts &has = now_.dims[dim], &wants = to_.dims[dim];
    const bool is_prefix =
        has.size() <= wants.size() && std::equal(has.begin(), has.end(), wants.begin());
    if (is_prefix) return std::nullopt;
    return has.back();
  }
  bool in_use(AxisId axis) const {
    for (const Cuts& cuts : now_.dims)
      for (const Cut& cut : cuts)
        if (cut.axis == axis) return true;
    return now_.partial_on(axis) != nullptr;
  }
  void drop_partial(AxisId axis) {
    std::erase_if(now_.partial, [&](const op::Partial& p) { return p.axis == axis; });
  }
  bool add(Conversion step) {
    step.after = now_;
    const auto uncut = [](const Cuts& cuts) { return cuts.empty(); };
    if (std::all_of(step.after.dims.begin(), step.after.dims.end(), uncut)) step.after.dims.clear();
    steps_.push_back(std::move(step));
    return true;
  }

  bool slice() {
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      const auto cut = next_cut(dim);
      if (!cut || in_use(cut->axis)) continue;
      now_.dims[dim].push_back(*cut);
      return add({OwnMove::slice, {cut->axis}, op::Reduction::sum, dim, dim, {}});
    }
    return false;
  }
  bool reduce_scatter() {
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      const auto cut = next_cut(dim);
      if (!cut) continue;
      const op::Partial* partial = now_.partial_on(cut->axis);
      if (partial == nullptr) continue;
      const op::Reduction reduction = partial->reduction;
      drop_partial(cut->axis);
      now_.dims[dim].push_back(*cut);
      return add({Collective::reduce_scatter, {cut->axis}, reduction, dim, dim, {}});
    }
    return false;
  }
  /// Reduces once along all axes of one reduction on which `to` wants the value neither partial nor
  /// cut: a ring of n m ranks sends less than a ring of n ranks and then one of m.
  bool all_reduce() {
    std::vector<AxisId> axes;
    op::Reduction reduction = op::Reduction::sum;
    for (const op::Partial& partial : now_.partial) {
      if (to_.partial_on(partial.axis) != nullptr || will_cut(partial.axis)) continue;
      if (axes.empty()) reduction = partial.reduction;
      if (partial.reduction == reduction) axes.push_back(partial.axis);
    }
    if (axes.empty()) return false;
    std::ranges::sort(axes);
    for (const AxisId axis : axes) drop_partial(axis);
    return add({Collective::all_reduce, axes, reduction, 0, 0, {}});
  }
  bool will_cut(AxisId axis) const {
    for (std::size_t dim = 0; dim < to_.dims.size(); ++dim)
      for (const Cut& cut : to_.dims[dim])
        if (cut.axis == axis) return true;
    return false;
  }
  bool all_to_all() {
    for (std::size_t from = 0; from < now_.dims.size(); ++from) {
      const auto lost = lost_cut(from);
      if (!lost) continue;
      for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
        const auto cut = next_cut(dim);
        if (!cut || cut->axis != lost->axis || dim == from) continue;
        now_.dims[from].pop_back();
        now_.dims[dim].push_back(*cut);
        return add({Collective::all_to_all, {cut->axis}, op::Reduction::sum, dim, from, {}});
      }
    }
    return false;
  }
  bool all_gather() {
    for (std::size_t dim = now_.dims.size(); dim-- > 0;) {
      const auto lost = lost_cut(dim);
      if (!lost) continue;
      now_.dims[dim].pop_back();
      return add({Collective::all_gather, {lost->axis}, op::Reduction::sum, dim, dim, {}});
    }
    return false;
  }

  Sharding now_, to_;
  std::vector<Conversion> steps_;
};

}  // namespace

Conversion copy_in(const Sharding& sharding) {
  return {OwnMove::copy, {}, op::Reduction::sum, 0, 0, sharding};
}

std::vector<Conversion> conversion_path(const Sharding& from, const Sharding& to) {
  return Path(from, to).run();
}

}  // namespace fourfold::compile
