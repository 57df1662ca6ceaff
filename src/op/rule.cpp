#include "op/rule.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

const Cuts& cuts_of(const Sharding& sharding, std::size_t dim) {
  static const Cuts none;
  return dim < sharding.dims.size() ? sharding.dims[dim] : none;
}

/// Factor -> cuts, filled from the reads; a factor met twice must be cut alike.
class FactorCuts {
 public:
  FactorCuts(const FactorRule& rule, const Mesh& mesh) : rule_(rule), mesh_(mesh) {}

  std::string add_read(std::size_t read, const Sharding& sharding) {
    for (std::size_t dim = 0; dim < rule_.operands[read].size(); ++dim) {
      const std::string_view factors = rule_.operands[read][dim];
      if (factors.size() == 1) {  // as nearly all are
        if (auto problem = add_factor(factors[0], cuts_of(sharding, dim), dim, read);
            !problem.empty())
          return problem;
        continue;
      }
      const auto split = split_cuts(factors, rule_.sizes, cuts_of(sharding, dim), mesh_);
      if (const auto* problem = std::get_if<std::string>(&split))
        return format("dim {} of read {}: {}", dim, read, *problem);
      for (const auto& [factor, cuts] : std::get<0>(split))
        if (auto problem = add_factor(factor, cuts, dim, read); !problem.empty()) return problem;
    }
    return {};
  }

  /// Only the factors that no read has follow the claim of an output.
  std::string add_output(std::size_t output, const OperandFactors& factors,
                         const Sharding& claimed) {
    for (std::size_t dim = 0; dim < factors.size(); ++dim) {
      const auto is_known = [&](char factor) { return cuts_.contains(factor); };
      if (std::all_of(factors[dim].begin(), factors[dim].end(), is_known)) continue;
      const auto split = split_cuts(factors[dim], rule_.sizes, cuts_of(claimed, dim), mesh_);
      if (const auto* problem = std::get_if<std::string>(&split))
        return format("dim {} of output {}: {}", dim, output, *problem);
      for (const auto& [factor, cuts] : std::get<0>(split)) {
        const bool inserted = cuts_.try_emplace(factor, cuts).second;
        if (inserted && !cuts.empty() && rule_.is_whole(factor))
          return format("dim {} of output {} may not be cut", dim, output);
      }
    }
    return {};
  }

  const std::map<char, Cuts>& all() const { return cuts_; }

 private:
  std::string add_factor(char factor, const Cuts& cuts, std::size_t dim, std::size_t read) {
    if (!cuts.empty() && rule_.is_whole(factor))
      return format("dim {} of read {} (factor {}) may not be cut", dim, read, factor);
    const auto [place, inserted] = cuts_.try_emplace(factor, cuts);
    if (!inserted && place->second != cuts)
      return format("factor {} is cut differently in read {} than in an earlier read", factor,
                    read);
    return {};
  }

  const FactorRule& rule_;
  const Mesh& mesh_;
  std::map<char, Cuts> cuts_;
};

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

std::variant<Sharding, std::string> output_state(const FactorRule& rule,
                                                 const OperandFactors& operand,
                                                 const FactorCuts& factors, const PartialAxes& axes,
                                                 const Mesh& mesh) {
  Sharding state;
  bool any_cut = false;
  for (std::size_t dim = 0; dim < operand.size(); ++dim) {
    auto cuts = merge_cuts(operand[dim], rule.sizes, factors.all(), mesh);
    if (auto* problem = std::get_if<std::string>(&cuts)) return std::move(*problem);
    state.dims.push_back(std::move(std::get<Cuts>(cuts)));
    any_cut = any_cut || !state.dims.back().empty();
  }
  if (!any_cut) state.dims.clear();
  for (const AxisId axis : axes.of_reads) state.partial.push_back({axis, Reduction::sum});
  for (const auto& [factor, cuts] : factors.all())
    if (operand.letters().find(factor) == std::string::npos &&
        axes.reduced_letters.find(factor) != std::string::npos)
      for (const Cut& cut : cuts) state.partial.push_back({cut.axis, axes.over_factors});
  std::sort(state.partial.begin(), state.partial.end(),
            [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
  return state;
}

}  // namespace

FactorRule FactorRule::of_any_form() const {
  FactorRule rule = *this;
  for (const char factor : cut_form) {
    std::erase(rule.whole, factor);
    rule.repeated += factor;
  }
  rule.cut_form.clear();
  return rule;
}

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
    case Element::u8:
      return DType::u8;
    case Element::f64:
      return DType::f64;
  }
  fail_internal("every element kind has a dtype");
}

const std::vector<Shape>& Outputs::shapes() const {
  if (const Mistake* found = mistake()) fail_internal(found->sentence);
  return std::get<std::vector<Shape>>(answer_);
}

Propagation propagate(const FactorRule& rule, std::span<const Sharding> reads,
                      std::span<const Sharding> outputs_claimed, const Mesh& mesh) {
  require(rule.operands.size() == reads.size() + outputs_claimed.size(),
          "a rule has factors for every operand");
  Propagation result;
  const MeshId mesh_id = reads.empty() ? outputs_claimed[0].mesh : reads[0].mesh;
  for (const Sharding& read : reads)
    if (read.mesh != mesh_id) return {{}, "reads lie on different meshes"};

  FactorCuts factors(rule, mesh);
  std::vector<AxisId> partial;
  std::string reduced_letters;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (result.problem = factors.add_read(i, reads[i]); !result.problem.empty()) return result;
    for (const char letter : rule.operands[i].letters())
      if (rule.repeated.find(letter) == std::string::npos) reduced_letters += letter;
  }
  if (result.problem = gather_partial(rule, reads, partial); !result.problem.empty()) return result;
  for (std::size_t i = 0; i < outputs_claimed.size(); ++i)
    if (result.problem = factors.add_output(i, rule.operands[reads.size() + i], outputs_claimed[i]);
        !result.problem.empty())
      return result;
  if (result.problem = check_axes_used_once(factors.all(), partial); !result.problem.empty())
    return result;
  for (std::size_t i = 0; i < outputs_claimed.size(); ++i) {
    auto state = output_state(rule, rule.operands[reads.size() + i], factors,
                              {partial, reduced_letters, rule.reduction}, mesh);
    if (auto* problem = std::get_if<std::string>(&state)) return {{}, std::move(*problem)};
    result.outputs.push_back(std::move(std::get<Sharding>(state)));
    result.outputs.back().mesh = mesh_id;
  }
  return result;
}

}  // namespace fourfold::op
