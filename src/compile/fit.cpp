#include "compile/fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compile/place_buffers.h"

namespace fourfold::compile {
namespace {

constexpr std::size_t tensors_named = 5;

/// Each step repeats more than the one before it: none, the products of no layer, every layer, of
/// `layers`, which are ascending.
plan::Checkpointing checkpointing_at(std::size_t step, const std::vector<std::int64_t>& layers) {
  const std::size_t count = layers.size();
  const auto after = [&](std::size_t number) { return number == 0 ? 0 : layers[number - 1] + 1; };
  return {.is_auto = true,
          .first_full = after(std::max(step, count) - count),
          .first_selective = after(std::min(step, count))};
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

/// Looks for the first step that is within a limit: the more of it, the fewer bytes, but where even
/// the last step is beyond it. What a layer needs while it is computed again may be more than what
/// it leaves: then all steps are looked at, for the first that fits or else the one that needs
/// least.
class Search {
 public:
  Search(std::size_t most, std::int64_t limit) : most_(most), high_(most), limit_(limit) {}

  bool is_done() const { return way_ == Way::done; }
  /// The step to try, or the one that was found.
  std::size_t next() const { return next_; }
  /// What `next` needs.
  void learn(std::int64_t bytes) {
    switch (way_) {
      case Way::first:
        if (bytes <= limit_ || most_ == 0) return finish(0);
        way_ = Way::last;
        next_ = most_;
        return;
      case Way::last:
        best_ = most_;
        best_bytes_ = bytes;
        way_ = bytes <= limit_ ? Way::halves : Way::all;
        next_ = 0;
        return way_ == Way::halves ? halve() : advance();
      case Way::halves:
        (bytes <= limit_ ? high_ : low_) = next_;
        return halve();
      case Way::all:
        if (bytes < best_bytes_) best_ = next_, best_bytes_ = bytes;
        return advance();
      case Way::done:
        return;
    }
  }

 private:
  enum class Way : std::uint8_t { first, last, halves, all, done };

  void finish(std::size_t step) {
    next_ = step;
    way_ = Way::done;
  }
  void halve() {
    if (high_ - low_ <= 1) return finish(high_);
    next_ = low_ + (high_ - low_) / 2;
  }
  void advance() {
    if (best_bytes_ <= limit_ || next_ + 1 >= most_) return finish(best_);
    ++next_;
  }

  std::size_t most_, low_ = 0, high_, next_ = 0, best_ = 0;
  std::int64_t limit_, best_bytes_ = 0;
  Way way_ = Way::first;
};

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

  /// By mesh, the step of checkpointing_at.
  using Steps = std::vector<std::size_t>;

  void choose_checkpointing() {
    const std::size_t meshes = plan_.meshes.size();
    std::vector<Search> searches;
    for (std::size_t mesh = 0; mesh < meshes; ++mesh)
      searches.emplace_back(2 * plan::layers_on(plan_, MeshId(mesh), layers_).size(), limit_);
    while (std::ranges::any_of(searches, [](const Search& search) { return !search.is_done(); })) {
      Steps tried;
      for (const Search& search : searches) tried.push_back(search.next());
      const std::vector<std::int64_t> bytes = bytes_by_mesh(with_steps(tried));
      for (std::size_t mesh = 0; mesh < meshes; ++mesh) searches[mesh].learn(bytes[mesh]);
    }
    Steps chosen;
    for (const Search& search : searches) chosen.push_back(search.next());
    plan_ = with_steps(chosen);
  }

  plan::Plan with_steps(const Steps& steps) const {
    plan::Plan result = plan_;
    result.checkpointing_of_meshes.clear();
    for (std::size_t mesh = 0; mesh < steps.size(); ++mesh)
      result.checkpointing_of_meshes.push_back(
          checkpointing_at(steps[mesh], plan::layers_on(plan_, MeshId(mesh), layers_)));
    if (steps.size() == 1 || !result.repeats_any()) {
      result.checkpointing = result.checkpointing_of_meshes.front();
      result.checkpointing_of_meshes.clear();
    }
    return result;
  }

  /// What the training step needs on a rank of each mesh.
  std::vector<std::int64_t> bytes_by_mesh(const plan::Plan& plan) const {
    std::vector<std::int64_t> most(plan.meshes.size(), 0);
    for (const program::Bundle& bundle : train_only(plan, {}).classes) {
      const Rank rank = bundle.programs.front().rank;
      for (std::size_t mesh = 0; mesh < most.size(); ++mesh)
        if (plan.meshes[mesh].ranks.has(rank))
          most[mesh] = std::max(most[mesh], bundle.persistent_bytes + bundle.transient_bytes);
    }
    return most;
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
    return most_bytes(train_only(plan, room));
  }

  program::Job train_only(const plan::Plan& plan, const Room& room) const {
    return compile(model_, plan, target_,
                   {.without = options_.without, .only = "train", .room = room});
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
