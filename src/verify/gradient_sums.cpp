#include "verify/gradient_sums.h"

#include <string>

#include "base/format.h"
#include "program/text.h"

namespace fourfold::verify {

const Contribution* GradientSums::contribution(std::uint64_t kind) const {
  const auto found = contributions_.find(kind);
  return found == contributions_.end() ? nullptr : &found->second;
}

void GradientSums::count_uses(const std::vector<BufferId>& weights,
                              std::optional<std::size_t> number, std::int64_t micro) {
  for (const BufferId weight : weights) {
    std::vector<std::uint32_t>& uses = uses_[weight];
    uses.resize(batches_.size());
    const Batches::Range range =
        number ? Batches::Range{*number, *number + 1} : batches_.chunks_of(micro);
    for (std::size_t batch = range.begin; batch < range.end; ++batch) ++uses[batch];
  }
}

void GradientSums::check() const {
  Content gradients, updates;
  for (const Update& update : updates_) {
    check_gradient(update);
    gradients += term_of(update, true);
    updates += term_of(update, false);
  }
  if (updates_.empty()) return;
  for (const Total& total : totals_) check_total(total, total.of_gradients ? gradients : updates);
}
Content GradientSums::term_of(const Update& update, bool of_gradients) const {
  return of_gradients ? Content{0, mixed(5, contents_.kind(update.gradient)), 1}
                      : contents_.content(update.found);
}

void GradientSums::check_gradient(const Update& update) const {
  const ValueId gradient = update.gradient;
  if (contents_.is_faulty(gradient)) return;
  const std::string& name = program_.buffer(update.weight).name;
  if (const auto micro = contents_.micro(gradient); micro && batches_.size() > 1)
    return fault_(update.index,
                  format("the gradient of {} is of {} alone", name, batches_.text(*micro)));
  const auto used = uses_.find(update.weight);
  for (std::size_t micro = 0; micro < batches_.size(); ++micro) {
    const std::uint64_t uses = used == uses_.end() ? 0 : used->second[micro],
                        count = contents_.content(gradient).count;
    if (uses == count) continue;
    return fault_(
        update.index,
        format("the gradient of {} has {} contributions of {}, but {} of its forward pass use the "
               "weight",
               name, count, batches_.text(micro), uses));
  }
  check_origin(update);
}

void GradientSums::check_origin(const Update& update) const {
  const auto kinds = contents_.first_kinds(update.gradient);
  if (!kinds)
    return fault_(update.index, "its gradient is a sum that is nested too deep to be followed");
  for (const std::uint64_t kind : *kinds) {
    if (const auto row = led_back_.find(kind); row != led_back_.end())
      return fault_(update.index,
                    format("the gradient of {} has a term that instruction {} ({}) takes back to "
                           "the type of sums: what was summed up before was rounded",
                           program_.buffer(update.weight).name, row->second,
                           short_text(program_, program_.instructions[row->second])));
    const auto contribution = contributions_.find(kind);
    if (contribution == contributions_.end()) continue;
    bool is_known = false, is_own = false;
    for (const std::uint64_t read : contribution->second.reads)
      if (const auto met = met_.find(read); met != met_.end()) {
        is_known = true;
        is_own = is_own || met->second.contains(update.weight);
      }
    if (!is_known || is_own) continue;
    return fault_(update.index,
                  format("the gradient of {} has a contribution of another weight: instruction {} "
                         "({}) reads nothing that meets this one in the forward pass",
                         program_.buffer(update.weight).name, contribution->second.index,
                         short_text(program_, program_.instructions[contribution->second.index])));
  }
}

void GradientSums::check_total(const Total& total, const Content& expected) const {
  const Content& found = contents_.content(total.value);
  if (contents_.is_faulty(total.value) || found.inputs == expected.inputs) return;
  const std::string_view what = total.of_gradients ? "gradient" : "update";
  for (const Update& update : updates_)
    if (const std::uint64_t one = term_of(update, total.of_gradients).inputs;
        expected.inputs - found.inputs == one || found.inputs - expected.inputs == one)
      return fault_(total.index, format("the sum over all {}s has the {} of {} {}", what, what,
                                        program_.buffer(update.weight).name,
                                        found.count < expected.count ? "not at all" : "twice"));
  fault_(total.index, format("it reads a sum of {} contributions as that over all {}s, of which "
                             "there are {}",
                             found.count, what, expected.count));
}

}  // namespace fourfold::verify
