#include "op/rule.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

using Cuts = std::vector<Cut>;

const Cuts& cuts_of(const Sharding& sharding, std::size_t dim) {
  static const Cuts none;
  return dim < sharding.dims.size() ? sharding.dims[dim] : none;
}

/// Factor -> cuts, filled from the reads; a factor met twice must be cut alike.
std::string gather_factors(const FactorRule& rule, std::span<const Sharding> reads,
                           std::map<char, Cuts>& factors) {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const std::string& letters = rule.operands[i];
    for (std::size_t dim = 0; dim < letters.size(); ++dim) {
      const Cuts& cuts = cuts_of(reads[i], dim);
      const char factor = letters[dim];
      if (!cuts.empty() && rule.whole.find(factor) != std::string::npos)
        return format("dim {} of read {} (factor {}) may not be cut", dim, i, factor);
      const auto [place, inserted] = factors.try_emplace(factor, cuts);
      if (!inserted && place->second != cuts)
        return format("factor {} is cut differently in read {} than in an earlier read", factor, i);
    }
  }
  return {};
}

/// Axes on which the outputs are partial because the reads are.
std::string gather_partial(const FactorRule& rule, std::span<const Sharding> reads,
                           std::vector<AxisId>& axes) {
  for (std::size_t i = 0; i < reads.size(); ++i)
    for (const Partial& p : reads[i].partial) {
      if (p.reduction == Reduction::max) return format("read {} is a partial maximum", i);
      if (std::find(axes.begin(), axes.end(), p.axis) == axes.end()) axes.push_back(p.axis);
    }
  for (const AxisId axis : axes) {
    std::size_t count = 0;
    for (const Sharding& read : reads) count += read.partial_on(axis) != nullptr ? 1U : 0U;
    const bool legal = (rule.linear == FactorRule::Linear::one && count == 1) ||
                       (rule.linear == FactorRule::Linear::all && count == reads.size()) ||
                       (rule.linear == FactorRule::Linear::first && count == 1 &&
                        reads[0].partial_on(axis) != nullptr);
    if (!legal)
      return format("{} of {} reads are partial sums on axis {}, and the op is not linear in them",
                    count, reads.size(), axis.index());
  }
  return {};
}

std::string check_axes_used_once(const std::map<char, Cuts>& factors, std::vector<AxisId> used) {
  for (const auto& [factor, cuts] : factors)
    for (const Cut& cut : cuts) {
      if (std::find(used.begin(), used.end(), cut.axis) != used.end())
        return format("axis {} cuts factor {} and is already in use", cut.axis.index(), factor);
      used.push_back(cut.axis);
    }
  return {};
}

/// What the outputs are partial in: sums because the reads are, and reductions over cut factors.
struct PartialAxes {
  std::vector<AxisId> of_reads;
  std::string reduced_letters;  // where an output lacks them
  Reduction over_factors;
};

Sharding output_state(const std::string& letters, const std::map<char, Cuts>& factors,
                      const PartialAxes& axes, MeshId mesh) {
  Sharding state{mesh, {}, {}};
  bool any_cut = false;
  for (const char factor : letters) {
    state.dims.push_back(factors.at(factor));
    any_cut = any_cut || !state.dims.back().empty();
  }
  if (!any_cut) state.dims.clear();
  for (const AxisId axis : axes.of_reads) state.partial.push_back({axis, Reduction::sum});
  for (const auto& [factor, cuts] : factors)
    if (letters.find(factor) == std::string::npos &&
        axes.reduced_letters.find(factor) != std::string::npos)
      for (const Cut& cut : cuts) state.partial.push_back({cut.axis, axes.over_factors});
  std::sort(state.partial.begin(), state.partial.end(),
            [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  return state;
}

}  // namespace

DType element_dtype(Element element, DType compute) {
  switch (element) {
    case Element::compute:
      return compute;
    case Element::accumulate:
      return accumulation_type(compute);
    case Element::i32:
      return DType::i32;
    case Element::i64:
      return DType::i64;
    case Element::u64:
      return DType::u64;
    case Element::f64:
      return DType::f64;
  }
  fail_internal("every element kind has a dtype");
}

Propagation propagate(const FactorRule& rule, std::span<const Sharding> reads,
                      std::span<const Sharding> outputs_claimed) {
  require(rule.operands.size() == reads.size() + outputs_claimed.size(),
          "a rule has letters for every operand");
  Propagation result;
  const MeshId mesh = reads.empty() ? outputs_claimed[0].mesh : reads[0].mesh;
  for (const Sharding& read : reads)
    if (read.mesh != mesh) return {{}, "reads lie on different meshes"};

  std::map<char, Cuts> factors;
  std::vector<AxisId> partial;
  if (result.problem = gather_factors(rule, reads, factors); !result.problem.empty()) return result;
  if (result.problem = gather_partial(rule, reads, partial); !result.problem.empty()) return result;
  std::string reduced_letters;
  for (std::size_t i = 0; i < reads.size(); ++i)
    for (const char letter : rule.operands[i])
      if (rule.repeated.find(letter) == std::string::npos) reduced_letters += letter;
  for (std::size_t i = 0; i < outputs_claimed.size(); ++i) {
    const std::string& letters = rule.operands[reads.size() + i];
    for (std::size_t dim = 0; dim < letters.size(); ++dim) {
      const Cuts& cuts = cuts_of(outputs_claimed[i], dim);
      const auto [place, inserted] = factors.try_emplace(letters[dim], cuts);
      if (inserted && !cuts.empty() && rule.whole.find(letters[dim]) != std::string::npos)
        return {{}, format("dim {} of output {} may not be cut", dim, i)};
    }
  }
  if (result.problem = check_axes_used_once(factors, partial); !result.problem.empty())
    return result;
  for (std::size_t i = 0; i < outputs_claimed.size(); ++i)
    result.outputs.push_back(output_state(rule.operands[reads.size() + i], factors,
                                          {partial, reduced_letters, rule.reduction}, mesh));
  return result;
}

}  // namespace fourfold::op
