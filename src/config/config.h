// Everything a run is told, as each room's own small spec. Filled by load(); only cli/ reads it
// whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/small_file.h"
#include "config/origin.h"
#include "data/data_spec.h"
#include "generate/sample_spec.h"
#include "graph/optimizer_spec.h"
#include "model/model_spec.h"
#include "plan/plan_spec.h"
#include "train/train_spec.h"

namespace fourfold::config {

/// The words of run.kernel_table; any other text is a file of `bench kernels`.
struct KernelTable {
  static constexpr const char* automatic = "auto";
  static constexpr const char* builtin = "builtin";
};

/// Which sizes of the grid are open. Those of data follow from the number of ranks, the others and
/// the number of stages are the planner's to choose.
struct OpenAxes {
  bool x = false, y = false, z = false, stages = false, data = false;
  bool are_planned() const { return x || y || z || stages; }
  bool operator==(const OpenAxes&) const = default;
};

struct Config {
  std::string name;
  std::string dir;
  std::uint64_t seed = 1;
  int threads = 0;               // of the CPU kernels; 0: all cores this process may use
  bool bind_to_cores = true;     // ranks that are threads, each to its share
  std::string device = "auto";   // "auto", "cpu" or "cuda"
  std::string kernels = "auto";  // "auto" or "reference"
  std::string init_from;         // a model to begin with; empty: random weights
  std::string kernel_table = KernelTable::automatic;
  bool deterministic = true;  // false: kernels may add in another order in each run
  /// Seconds without progress anywhere after which the job ends; 0: max(30 s, 10 x the median
  /// step).
  double watchdog_s = 0;
  std::int64_t weights_file_mib = 4768;  // a larger model ends as several files and an index
  std::string log_level = "info";        // "debug", "info", "warning" or "error"
  bool tensorboard = false;              // writes event files
  std::optional<std::int64_t> micro_batch_size;  // none: all samples of a rank at once
  /// `kind` says which family counts. Each family has its settings under its word: Config::gpt, and
  /// so on. What a model leaves to the data is 0 or empty until it is known.
  model::Kind kind = {};
#define FOURFOLD_FAMILY(word, Spec) model::Spec word;
  FOURFOLD_FAMILIES(FOURFOLD_FAMILY)
#undef FOURFOLD_FAMILY
  /// The type of the residual stream: that of the computation, or f32 beside bf16.
  DType residual = DType::f32;
  plan::PlanSpec plan;
  std::string layout;            // the file of parallel.layout; empty: none
  OpenAxes open_axes;            // of plan.grid and plan.pipeline; their sizes there are 1
  std::string machine = "auto";  // that the planner chooses for: a name, a file, or "auto"
  data::DataSpec data;
  graph::OptimizerSpec optimizer;
  train::TrainSpec train;
  generate::SampleSpec sample;
  Origins origins;  // where the values were given
  bool operator==(const Config&) const = default;

  /// What the family of the model is.
  const model::Family& family() const { return model::family(kind); }
  /// The model, its residual stream in the type that it is kept in. A copy: whoever changes it
  /// gives it back.
  model::Spec model() const;
  void set_model(const model::Spec& given);
  /// What other rooms are handed: their own section, and what keys of other sections say of it
  /// (seed, sequence length, vocabulary, name and folder of the run, the micro-batch that follows
  /// from the grid). Cost: a copy.
  plan::PlanSpec plan_spec() const;  // `auto` ranks of data count as 1
  data::DataSpec data_spec() const;
  train::TrainSpec train_spec() const;
  generate::SampleSpec sample_spec() const;
  /// True if the planner has something to choose: the grid, the stages, or the layout.
  bool leaves_plan_open() const {
    return open_axes.are_planned() ||
           (plan.strategy == plan::Strategy::searched && layout.empty() && !plan.layout);
  }
  bool has_wide_residual() const { return plan.compute == DType::bf16 && residual == DType::f32; }
};

/// "gpt": how model.kind names it.
std::string kind_word(model::Kind kind);

/// How a file is read: its text, or why there is none.
using FileReader = std::function<std::variant<std::string, FileFault>(const std::string& path)>;

/// The configuration is right but for its grid, which does not divide its model or its batch.
class UnfitGrid : public UserError {
 public:
  UnfitGrid(const std::string& text, Config config)
      : UserError(ExitCode::does_not_fit, text), config_(std::move(config)) {}
  const Config& config() const { return config_; }

 private:
  Config config_;
};

/// Reads the files from left to right (a later value wins; a file that `extends` another is read
/// after it), then the "key.path=value" texts of --set, whose values are YAML. No file and no set
/// gives the defaults, if they are consistent. `read` is read_small_file unless given.
/// Errors: one UserError(bad_config) with every problem of every file and --set, each with its
/// place and what to do; UnfitGrid where all of them are the grid's.
Config load(std::span<const std::string> files, std::span<const std::string> sets,
            const FileReader& read = {});

/// Reads one text, which messages call by this name. Errors: as load.
Config load_yaml(const std::string& yaml, const std::string& name);
/// Reads the text that a checkpoint holds.
Config stored(const std::string& yaml);

}  // namespace fourfold::config
