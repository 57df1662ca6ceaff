#include "search/fit_layout.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fourfold::search {
namespace {

constexpr std::size_t tensors_told = 5;

/// The names of the parameters, the largest first; those of one size in their order.
std::vector<std::string> largest_first(const graph::Graph& train) {
  std::vector<const graph::Value*> parameters;
  for (const graph::Value& value : train.values)
    if (value.role == graph::ValueRole::parameter) parameters.push_back(&value);
  std::ranges::stable_sort(parameters, std::ranges::greater(),
                           [](const graph::Value* one) { return one->shape.elements(); });
  std::vector<std::string> names;
  for (const graph::Value* one : parameters) names.push_back(one->name);
  return names;
}

/// Searches with more and more parameters cut: step k cuts the k largest somehow; past the last
/// of these, step n + k has all cut, and the k largest as much as there may be.
class Fitter {
 public:
  Fitter(const graph::Graph& train, const plan::Layout& start, const LayoutSetting& setting,
         Pricer& pricer, std::string_view solver,
         const std::function<bool(const plan::Layout&)>& fits, const solve::Limits& limits)
      : train_(train),
        start_(start),
        setting_(setting),
        pricer_(pricer),
        solver_(solver),
        fits_(fits),
        limits_(limits),
        names_(largest_first(train)) {}

  FitOutcome run() {
    std::size_t below = 0, step = 2 * names_.size();  // `below` does not fit
    if (try_step(0)) return answer(0);
    if (failure_) return std::move(*failure_);
    if (!try_step(step)) return failure_ ? std::move(*failure_) : nothing();
    if (try_step(names_.size()))
      step = names_.size();
    else
      below = names_.size();
    while (!failure_ && step - below > 1) {
      const std::size_t middle = below + (step - below) / 2;
      (try_step(middle) ? step : below) = middle;
    }
    return failure_ ? std::move(*failure_) : answer(step);
  }

 private:
  struct Tried {
    std::size_t step = 0;
    ChosenLayout chosen;
    bool fits = false;
  };

  /// True if the layout of a step fits.
  bool try_step(std::size_t step) {
    LayoutSetting setting = setting_;
    setting.cut.clear();
    for (std::size_t i = 0; i < std::min(step, names_.size()); ++i)
      setting.cut[names_[i]] = i + names_.size() < step ? Cutting::most : Cutting::some;
    LayoutOutcome outcome =
        choose_layout(train_, start_, std::move(setting), pricer_, solver_, limits_);
    if (auto* refused = std::get_if<solve::Refused>(&outcome)) failure_ = std::move(*refused);
    if (auto* bad = std::get_if<plan::Infeasible>(&outcome)) failure_ = std::move(*bad);
    if (failure_) return false;
    auto& chosen = std::get<ChosenLayout>(outcome);
    const auto same = std::ranges::find_if(
        tried_, [&](const Tried& one) { return one.chosen.layout == chosen.layout; });
    const bool fits = same == tried_.end() ? fits_(chosen.layout) : same->fits;
    if (same == tried_.end()) ++asked_;
    tried_.push_back({step, std::move(chosen), fits});
    return fits;
  }

  Tried& tried(std::size_t step) {
    const auto place = std::ranges::find(tried_, step, &Tried::step);
    require(place != tried_.end(), "the layout of the step was tried");
    return *place;
  }

  FitOutcome answer(std::size_t step) {
    FittedLayout fitted{std::move(tried(step).chosen), {}, 0, asked_};
    fitted.cut.assign(names_.begin(),
                      names_.begin() + static_cast<std::ptrdiff_t>(std::min(step, names_.size())));
    fitted.cut_most = step > names_.size() ? step - names_.size() : 0;
    return fitted;
  }

  FitOutcome nothing() {
    NothingFits nothing{std::move(tried(2 * names_.size()).chosen), names_.size(), 0, {}};
    nothing.bytes = demand_of_layout(train_, nothing.least.layout, setting_).memory.all();
    plan::PersistentShardings persistent = plan::persistent_shardings(train_, nothing.least.layout);
    const auto derived =
        plan::derive_shardings(train_, *setting_.mesh, nothing.least.layout, persistent);
    const auto& shardings = std::get<plan::GraphShardings>(derived);
    for (std::size_t i = 0; i < train_.values.size(); ++i) {
      const graph::Value& value = train_.values[i];
      const Shape local = op::local_shape(value.shape, shardings.values[i], *setting_.mesh);
      nothing.largest.push_back(
          {value.name,
           static_cast<double>(local.elements() *
                               size_bytes(op::element_dtype(value.element, setting_.compute)))});
    }
    std::ranges::stable_sort(nothing.largest, std::ranges::greater(), &LargeTensor::bytes);
    nothing.largest.resize(std::min(nothing.largest.size(), tensors_told));
    return nothing;
  }

  const graph::Graph& train_;
  const plan::Layout& start_;
  const LayoutSetting& setting_;
  Pricer& pricer_;
  std::string_view solver_;
  const std::function<bool(const plan::Layout&)>& fits_;
  const solve::Limits& limits_;
  std::vector<std::string> names_;
  std::vector<Tried> tried_;
  std::size_t asked_ = 0;
  std::optional<FitOutcome> failure_;
};

}  // namespace

FitOutcome choose_layout_that_fits(const graph::Graph& train, const plan::Layout& start,
                                   const LayoutSetting& setting, Pricer& pricer,
                                   std::string_view solver,
                                   const std::function<bool(const plan::Layout&)>& fits,
                                   const solve::Limits& limits) {
  return Fitter(train, start, setting, pricer, solver, fits, limits).run();
}

}  // namespace fourfold::search
