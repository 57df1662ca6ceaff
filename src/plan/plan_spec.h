// What the user fixes about the plan: filled by config/, read by plan/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "pipeline/schedule_spec.h"
#include "plan/pin_spec.h"
#include "reshard/reshard_plan.h"

namespace fourfold::plan {

/// Activation checkpointing: keep the input of every `layers` layers and recompute the rest in the
/// backward pass; 0 keeps everything ("none"), 1 is "full". With `keeps_products` what matrix
/// products give is kept too, so that only cheap ops are repeated: attention, norms, activations,
/// dropout ("selective" has it and layers 1; Korthikanti et al. 2022, arXiv:2205.05198, section 5).
/// `is_auto`: the least of it that fits the limit on memory is looked for when a job is compiled,
/// and stands in `first_full` and `first_selective` then: so many layers from the first on keep
/// their inputs alone, so many their products too, and later ones keep everything.
struct Checkpointing {
  std::int64_t layers = 0;
  bool keeps_products = false;
  bool is_auto = false;
  std::int64_t first_full = 0, first_selective = 0;
  bool operator==(const Checkpointing&) const = default;

  bool repeats_any() const { return layers > 0 || first_full > 0 || first_selective > 0; }
  /// True if something of the layer is computed again.
  bool repeats(std::int64_t layer) const {
    return layers > 0 || layer < first_full || layer < first_selective;
  }
  /// True if the products of a layer are not.
  bool keeps_products_of(std::int64_t layer) const {
    return layers > 0 ? keeps_products : layer >= first_full;
  }
  /// Layers of one segment are repeated together.
  std::int64_t segment_of(std::int64_t layer) const { return layers > 0 ? layer / layers : layer; }
};
/// "none", "selective", "full", "every 2", "auto", or what was found: "full for 2 layers, selective
/// for the next 3".
std::string to_string(const Checkpointing& checkpointing);

/// Where gradients of weights are computed: beside the rest of the backward pass, in its turn, or
/// as the target says.
enum class WeightGradients : std::uint8_t { automatic, beside, in_turn };

/// What may run beside computation: collectives (AxoNN, Singh et al. 2024, section IV), that is
/// sums of activations and of their gradients, with exchanges of them; sums of which each rank
/// keeps a block, as gradients of weights on z; gathers of weights, which are begun ahead; and
/// transfers between stages (Zhuang et al. 2023, arXiv:2211.05322, section 4), which are received
/// ahead. Where one may not, computation waits for it where it stands. No bit depends on these. And
/// where gradients of weights are computed: on a CPU a stream of their own has kernels of one
/// thread.
struct Overlap {
  bool all_reduce = true, reduce_scatter = true, all_gather = true, send_recv = true;
  WeightGradients weight_gradients = WeightGradients::automatic;
  bool operator==(const Overlap&) const = default;
};
/// "all_reduce, all_gather": those that may not, as configurations name them; empty where all may.
std::string not_overlapped(const Overlap& overlap);

/// Which rule lays out the parameters. All are special cases of one: `atp` (Cheng et al. 2023) has
/// z = 1, its d1 being x and its d2, which is innermost in rank order, y; `megatron` (Shoeybi et
/// al. 2019) has y = z = 1, `fsdp` (ZeRO-3, Rajbhandari et al. 2020) x = y = 1; `axonn` (Singh et
/// al. 2024) allows any grid. `searched`, which people write "auto", has a layout that was searched
/// for (Zhang et al. 2023, "Rhino") and is given; what has none yet is laid out as by `axonn`.
enum class Strategy : std::uint8_t { axonn, atp, megatron, fsdp, searched };
constexpr std::string_view to_string(Strategy strategy) {
  constexpr std::array<std::string_view, 5> names = {"axonn", "atp", "megatron", "fsdp", "auto"};
  return names[static_cast<std::size_t>(strategy)];
}

/// How ranks are divided among the axes of the mesh.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1, data = 1;
  /// Names of the axes, the one that varies fastest over ranks first.
  std::vector<std::string> order = {"x", "y", "z", "data"};
  bool operator==(const Grid&) const = default;
};

/// How values pass between the meshes of stages (reshard/).
struct ReshardSpec {
  reshard::Strategy strategy = reshard::Strategy::broadcast;
  std::optional<std::int64_t> chunks = std::nullopt;  // of each broadcast; none: best_chunks
  /// Ranks that follow one another on one host; none: all of them are on one.
  std::optional<std::int64_t> ranks_per_host = std::nullopt;
  bool operator==(const ReshardSpec&) const = default;
};

/// A model cut into the stages of a pipeline, each with layers of its own. Each mesh has one of
/// them, or several where they are interleaved: of S meshes, mesh i has the stages i, i + S ...
struct PipelineSpec {
  std::int64_t stages = 1;  // 1: the model is not cut
  std::int64_t stages_per_mesh = 1;
  pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b;
  pipeline::WeightDelay weight_delay = {};
  /// By stage, how many layers it has. Empty: so that the slowest stage is as fast as can be.
  std::vector<std::int64_t> layers = {};
  /// By mesh, its grid. Empty: that of PlanSpec::grid for all of them.
  std::vector<Grid> grids = {};
  ReshardSpec reshard = {};

  std::int64_t meshes() const { return stages / stages_per_mesh; }
  bool operator==(const PipelineSpec&) const = default;
};

/// A layout that stands in place of what the strategy says: a text of layout_text.h.
struct GivenLayout {
  std::string name;  // of its file, or who made it
  std::string text;
  bool operator==(const GivenLayout&) const = default;
};

/// So large that a message's start costs little beside it, on networks of a gigabit and above, and
/// so small that the last one, which nothing hides, is short.
inline constexpr std::int64_t default_bucket_bytes = std::int64_t{4} << 20;

struct PlanSpec {
  std::int64_t global_batch_size = 12;  // samples of a step
  std::int64_t micro_batch_size = 12;   // samples that one (data, z) coordinate processes at once
  std::int64_t seq_length = 64;         // tokens of a sample
  Checkpointing checkpointing = {};
  DType compute = DType::f32;
  Strategy strategy = Strategy::axonn;
  Grid grid = {};  // of each stage, where the pipeline does not give each one of its own
  PipelineSpec pipeline = {};
  bool shard_sequence = false;  // between layers, time is cut on x (Korthikanti et al. 2022)
  bool shard_states = false;    // optimizer state is cut on data (ZeRO-1)
  /// Training processes the samples of a micro-batch in so many equal chunks; collectives of one
  /// run beside the computation of the next (ATP, Cheng et al. 2023, section 4.1).
  std::int64_t chunks = 1;
  Overlap overlap = {};
  /// Gradients that are summed on data are sent in pieces of about so many bytes, each as soon as
  /// the last backward pass has made it; 0: each after that pass.
  std::int64_t bucket_bytes = default_bucket_bytes;
  /// The gathered weights of so many layers, counted from the last one, stay from the forward pass
  /// for the backward pass (AxoNN, section IV); others are gathered again. None: all of layers that
  /// are not repeated or, where there is a limit on memory, as many as it allows.
  std::optional<std::int64_t> cached_gathers = std::nullopt;
  /// Bytes of a rank's persistent and transient memory. None: as many as are needed.
  std::optional<std::int64_t> memory_limit = std::nullopt;
  bool rounds_gradients = false;  // as Plan has it
  std::vector<Pin> pins = {};     // shardings of parameters that the user has chosen
  std::optional<GivenLayout> layout = std::nullopt;  // of the one mesh
  bool operator==(const PlanSpec&) const = default;
};

}  // namespace fourfold::plan
