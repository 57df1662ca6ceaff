#include "compile/fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compile/place_buffers.h"

namespace fourfold::compile {
namespace {

constexpr std::size_t tensors_named = 5;

/// Each step repeats more than the one before it: none, the products of no layer, every layer.
plan::Checkpointing checkpointing_at(std::int64_t step, std::int64_t layers) {
  return {.is_auto = true,
          .first_full = std::max<std::int64_t>(step - layers, 0),
          .first_selective = std::min(step, layers)};
}

/// The least in (low, high] that is well, where `high` is and all after it are.
template <class IsWell>
std::int64_t least(std::int64_t low, std::int64_t high, IsWell&& is_well) {
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (is_well(middle) ? high : low) = middle;
  }
  return high;
}

class Fitting {
 public:
  Fitting(const graph::ModelGraphs& model, plan::Plan plan, const machine::Target& target,
          const PassOptions& options)
      : model_(model),
        plan_(std::move(plan)),
        target_(target),
        options_(options),
        layers_(model.num_layers),
        limit_(plan_.memory_limit.value()) {}

  std::variant<Fitted, DoesNotFit> run() {
    const bool is_open = !plan_.cached_gathers;
    if (is_open) plan_.cached_gathers = 0;
    choose_warm_ups();
    if (plan_.checkpointing.is_auto) choose_checkpointing();
    if (is_open) choose_cached_gathers();
    Fitted fitted{plan_, compile(model_, plan_, target_, options_)};
    const std::int64_t bytes = most_bytes(fitted.job);
    if (bytes <= limit_) return fitted;
    return does_not_fit(std::move(fitted), bytes);
  }

 private:
  /// As many micro-batches ahead as fit where nothing is repeated.
  void choose_warm_ups() {
    const std::int64_t most = plan::most_warm_ups(plan_);
    const auto fits_with_less = [&](std::int64_t less) {
      plan::Plan tried = plan_;
      if (less > 0) plan::limit_warm_ups(tried, most - less);
      return bytes_of(tried, {}) <= limit_;
    };
    if (most == 0 || fits_with_less(0)) return;
    const std::int64_t less = fits_with_less(most) ? least(0, most, fits_with_less) : most;
    plan::limit_warm_ups(plan_, most - less);
  }

  void choose_checkpointing() {
    const auto bytes_at = [&](std::int64_t step) {
      plan::Plan tried = plan_;
      tried.checkpointing = checkpointing_at(step, layers_);
      return bytes_of(tried, {});
    };
    const auto fits_at = [&](std::int64_t step) { return bytes_at(step) <= limit_; };
    const std::int64_t most = 2 * layers_;
    std::int64_t step = 0;
    if (!fits_at(0)) step = fits_at(most) ? least(0, most, fits_at) : smallest(most, bytes_at);
    plan_.checkpointing = checkpointing_at(step, layers_);
  }

  /// The first step that fits, or else the one that needs least: what a layer needs while it is
  /// computed again may be more than what it leaves.
  template <class Bytes>
  std::int64_t smallest(std::int64_t most, Bytes&& bytes_at) const {
    std::int64_t best = most, best_bytes = bytes_at(most);
    for (std::int64_t step = 0; step < most && best_bytes > limit_; ++step) {
      const std::int64_t bytes = bytes_at(step);
      if (bytes < best_bytes) best = step, best_bytes = bytes;
    }
    return best;
  }

  /// Some room for collectives comes before gathered weights that stay for long.
  void choose_cached_gathers() {
    const auto fits_without = [&](std::int64_t gathered_again) {
      plan::Plan tried = plan_;
      tried.cached_gathers = layers_ - gathered_again;
      return bytes_of(tried, room_of(plan_.overlap, few_instructions)) <= limit_;
    };
    if (!fits_without(layers_)) return;
    const std::int64_t again = fits_without(0) ? 0 : least(0, layers_, fits_without);
    plan_.cached_gathers = layers_ - again;
  }

  /// What the training step needs, with this room.
  std::int64_t bytes_of(const plan::Plan& plan, const Room& room) const {
    return most_bytes(compile(model_, plan, target_,
                              {.without = options_.without, .only = "train", .room = room}));
  }

  static std::int64_t most_bytes(const program::Job& job) {
    std::int64_t most = 0;
    for (const program::Bundle& bundle : job.classes)
      most = std::max(most, bundle.persistent_bytes + bundle.transient_bytes);
    return most;
  }

  static DoesNotFit does_not_fit(Fitted least, std::int64_t bytes) {
    DoesNotFit result{std::move(least), bytes, {}};
    const auto& classes = result.least.job.classes;
    const auto fullest = std::ranges::max_element(classes, {}, [](const auto& bundle) {
      return bundle.persistent_bytes + bundle.transient_bytes;
    });
    const program::Program& train = fullest->at("train");
    for (const program::Buffer& buffer : train.buffers)
      if (buffer.region == program::Region::persistent)
        result.largest.push_back({buffer.name, buffer.size_bytes});
    for (const program::BufferId id : live_peak(train).buffers)
      result.largest.push_back({train.buffer(id).name, train.buffer(id).size_bytes});
    std::ranges::stable_sort(result.largest, std::ranges::greater(), &DoesNotFit::Tensor::bytes);
    result.largest.resize(std::min(result.largest.size(), tensors_named));
    return result;
  }

  const graph::ModelGraphs& model_;
  plan::Plan plan_;
  const machine::Target& target_;
  const PassOptions& options_;
  std::int64_t layers_, limit_;
};

}  // namespace

std::variant<Fitted, DoesNotFit> compile_to_fit(const graph::ModelGraphs& model, plan::Plan plan,
                                                const machine::Target& target,
                                                const PassOptions& options) {
  if (plan.memory_limit) return Fitting(model, std::move(plan), target, options).run();
  program::Job job = compile(model, plan, target, options);
  return Fitted{std::move(plan), std::move(job)};
}

}  // namespace fourfold::compile
