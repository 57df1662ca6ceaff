#include "compile/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "compile/place_buffers.h"

namespace fourfold::compile {
namespace {

constexpr std::size_t tensors_named = 5;

/// Each step repeats more than the one before it: none, the products of no layer, every layer, of
/// `layers`, which are ascending.
plan::Checkpointing checkpointing_at(std::int64_t step, const std::vector<std::int64_t>& layers) {
  const std::int64_t count = std::ssize(layers);
  const auto after = [&](std::int64_t number) {
    return number == 0 ? 0 : layers[static_cast<std::size_t>(number - 1)] + 1;
  };
  return {.is_auto = true,
          .first_full = after(std::max(step, count) - count),
          .first_selective = after(std::min(step, count))};
}

/// How much a rank needs at a step of those among which is chosen.
struct Needed {
  std::int64_t step = 0, bytes = 0;
};

/// Two steps between which the first one lies that is within a limit: `high` is, `low` is not. To
/// look at a step is to compile, so it is looked for where the straight line through both says.
class Bracket {
 public:
  Bracket(Needed low, Needed high, std::int64_t limit) : low_(low), high_(high), limit_(limit) {}

  bool is_closed() const { return high_.step - low_.step <= 1; }
  std::int64_t first() const { return high_.step; }

  /// The step to look at next.
  std::int64_t next() const {
    const std::int64_t steps = high_.step - low_.step;
    if (times_wide_ == most_times_wide) return low_.step + steps / 2;
    const double share =
        static_cast<double>(low_.bytes - limit_) / static_cast<double>(low_.bytes - high_.bytes);
    const auto guess = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(steps)));
    return low_.step + std::clamp<std::int64_t>(guess, 1, steps - 1);
  }
  void learn(Needed found) {
    const std::int64_t before = high_.step - low_.step;
    (found.bytes <= limit_ ? high_ : low_) = found;
    const bool is_wide = times_wide_ < most_times_wide && 2 * (high_.step - low_.step) > before;
    times_wide_ = is_wide ? times_wide_ + 1 : 0;
  }

 private:
  /// After so many steps that left more than half, the one in the middle is looked at.
  static constexpr int most_times_wide = 2;

  Needed low_, high_;
  std::int64_t limit_;
  int times_wide_ = 0;
};

/// Looks for the first step that is within a limit: the more of it, the fewer bytes, but where even
/// the last step is beyond it. What a layer needs while it is computed again may be more than what
/// it leaves: then all steps are looked at, for the first that fits or else the one that needs
/// least.
class Search {
 public:
  Search(std::int64_t most, std::int64_t limit) : most_(most), limit_(limit) {}

  bool is_done() const { return way_ == Way::done; }
  /// The step to try, or the one that was found.
  std::int64_t next() const { return next_; }
  /// What `next` needs.
  void learn(std::int64_t bytes) {
    const Needed found{next_, bytes};
    switch (way_) {
      case Way::first:
        if (bytes <= limit_ || most_ == 0) return finish(0);
        first_ = found;
        way_ = Way::last;
        next_ = most_;
        return;
      case Way::last:
        best_ = found;
        if (bytes > limit_) {
          way_ = Way::all;
          next_ = 0;
          return advance();
        }
        way_ = Way::between;
        bracket_.emplace(first_, found, limit_);
        return narrow();
      case Way::between:
        bracket_->learn(found);
        return narrow();
      case Way::all:
        if (bytes < best_.bytes) best_ = found;
        return advance();
      case Way::done:
        return;
    }
  }

 private:
  enum class Way : std::uint8_t { first, last, between, all, done };

  void finish(std::int64_t step) {
    next_ = step;
    way_ = Way::done;
  }
  void narrow() {
    if (bracket_->is_closed()) return finish(bracket_->first());
    next_ = bracket_->next();
  }
  void advance() {
    if (best_.bytes <= limit_ || next_ + 1 >= most_) return finish(best_.step);
    ++next_;
  }

  std::int64_t most_, next_ = 0, limit_;
  Needed first_, best_;
  std::optional<Bracket> bracket_;
  Way way_ = Way::first;
};

class Fitting {
 public:
  Fitting(const graph::ModelGraphs& model, const plan::Plan& plan, std::int64_t limit,
          const machine::Target& target, const PassOptions& options)
      : model_(model),
        plan_(plan),
        target_(target),
        options_(options),
        layers_(model.num_layers),
        limit_(limit),
        fit_{.memory_limit = limit} {}

  std::variant<Fitted, DoesNotFit> run() {
    const bool is_open = !plan_.cached_gathers;
    if (is_open) fit_.cached_gathers = 0;
    choose_warm_ups();
    if (plan_.checkpointing.is_auto) choose_checkpointing();
    if (is_open) choose_cached_gathers();
    Fitted fitted{fit_, compile(model_, plan::with_fit(plan_, fit_), target_, options_)};
    const std::int64_t bytes = most_bytes(fitted.job);
    if (bytes <= limit_) return fitted;
    return does_not_fit(std::move(fitted), bytes);
  }

 private:
  /// As many micro-batches ahead as fit where nothing is repeated.
  void choose_warm_ups() {
    const std::int64_t most = plan::most_warm_ups(plan_);
    if (most == 0) return;
    const auto with_fewer = [&](std::int64_t fewer) {
      plan::Fit tried = fit_;
      if (fewer > 0) tried.warm_ups = most - fewer;
      return tried;
    };
    fit_ = with_fewer(
        first_within(most, [&](std::int64_t fewer) { return bytes_of(with_fewer(fewer), {}); }));
  }

  /// The first step of 0 to `last` that is within the limit: the more of it, the fewer bytes. The
  /// last one where none is.
  template <class BytesOf>
  std::int64_t first_within(std::int64_t last, BytesOf&& bytes_of_step) const {
    const auto at = [&](std::int64_t step) { return Needed{step, bytes_of_step(step)}; };
    const Needed low = at(0);
    if (low.bytes <= limit_) return 0;
    const Needed high = at(last);
    if (high.bytes > limit_) return last;
    Bracket bracket(low, high, limit_);
    while (!bracket.is_closed()) bracket.learn(at(bracket.next()));
    return bracket.first();
  }

  /// By mesh, the step of checkpointing_at.
  using Steps = std::vector<std::int64_t>;

  void choose_checkpointing() {
    const std::size_t meshes = plan_.meshes.size();
    std::vector<Search> searches;
    for (std::size_t mesh = 0; mesh < meshes; ++mesh)
      searches.emplace_back(2 * std::ssize(plan::layers_on(plan_, MeshId(mesh), layers_)), limit_);
    while (std::ranges::any_of(searches, [](const Search& search) { return !search.is_done(); })) {
      Steps tried;
      for (const Search& search : searches) tried.push_back(search.next());
      const std::vector<std::int64_t> bytes = bytes_by_mesh(with_steps(tried));
      for (std::size_t mesh = 0; mesh < meshes; ++mesh) searches[mesh].learn(bytes[mesh]);
    }
    Steps chosen;
    for (const Search& search : searches) chosen.push_back(search.next());
    fit_ = with_steps(chosen);
  }

  plan::Fit with_steps(const Steps& steps) const {
    plan::Fit result = fit_;
    result.checkpointing.clear();
    for (std::size_t mesh = 0; mesh < steps.size(); ++mesh)
      result.checkpointing.push_back(
          checkpointing_at(steps[mesh], plan::layers_on(plan_, MeshId(mesh), layers_)));
    return result;
  }
  bool repeats_any() const {
    return fit_.checkpointing.empty()
               ? plan_.repeats_any()
               : std::ranges::any_of(fit_.checkpointing, &plan::Checkpointing::repeats_any);
  }

  /// What the training step needs on a rank of each mesh.
  std::vector<std::int64_t> bytes_by_mesh(const plan::Fit& fit) const {
    std::vector<std::int64_t> most(plan_.meshes.size(), 0);
    for (const program::Bundle& bundle : train_only(fit, {}).classes) {
      const Rank rank = bundle.programs.front().rank;
      for (std::size_t mesh = 0; mesh < most.size(); ++mesh)
        if (plan_.meshes[mesh].ranks.has(rank))
          most[mesh] = std::max(most[mesh], bundle.persistent_bytes + bundle.transient_bytes);
    }
    return most;
  }

  /// Some room for collectives comes before gathered weights that stay for long.
  void choose_cached_gathers() {
    const std::int64_t again = first_within(layers_, [&](std::int64_t gathered_again) {
      plan::Fit tried = fit_;
      tried.cached_gathers = layers_ - gathered_again;
      return bytes_of(tried, room_of(plan_.overlap, few_instructions));
    });
    // A limit changes nothing where all weights stay and no layer is repeated.
    if (again > 0 || repeats_any())
      fit_.cached_gathers = layers_ - again;
    else
      fit_.cached_gathers.reset();
  }

  /// What the training step needs, with this room.
  std::int64_t bytes_of(const plan::Fit& fit, const Room& room) const {
    return most_bytes(train_only(fit, room));
  }

  program::Job train_only(const plan::Fit& fit, const Room& room) const {
    return compile(model_, plan::with_fit(plan_, fit), target_,
                   {.without = options_.without,
                    .only = op::ProgramKind::train,
                    .room = room,
                    .until_placed = true});
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
    const program::Program& train = fullest->at(op::ProgramKind::train);
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
  const plan::Plan& plan_;
  const machine::Target& target_;
  const PassOptions& options_;
  std::int64_t layers_, limit_;
  plan::Fit fit_;
};

}  // namespace

std::variant<Fitted, DoesNotFit> compile_to_fit(const graph::ModelGraphs& model,
                                                const plan::Plan& plan,
                                                const machine::Target& target,
                                                const PassOptions& options) {
  if (plan.memory_limit) return Fitting(model, plan, *plan.memory_limit, target, options).run();
  return Fitted{{}, compile(model, plan, target, options)};
}

std::variant<Fitted, DoesNotFit> finish_to_fit(Compilation& begun, const graph::ModelGraphs& model,
                                               const plan::Plan& plan,
                                               const machine::Target& target,
                                               std::optional<std::int64_t> most_bytes,
                                               const PassOptions& options) {
  if (plan.memory_limit) return Fitting(model, plan, *plan.memory_limit, target, options).run();
  if (auto job = begun.finish(target, most_bytes)) return Fitted{{}, std::move(*job)};
  return Fitting(model, plan, *most_bytes, target, options).run();
}

}  // namespace fourfold::compile
