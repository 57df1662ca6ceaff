#include "rundir/trained_model.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/text.h"
#include "checkpoint/model_files.h"
#include "checkpoint/store.h"
#include "config/family.h"
#include "config/uses.h"
#include "rundir/run_files.h"

namespace fourfold::rundir {
namespace {

TrainedModel from_checkpoint(checkpoint::Found found) {
  TrainedModel model;
  model.path = found.path;
  const checkpoint::Manifest& manifest = found.manifest;
  model.config = config::for_kernels_of_cpu(config::stored(manifest.config));
  model.tokenizer = manifest.tokenizer;
  model.tokenizer_place = format("{}: the tokenizer", found.path);
  model.origin = format("the checkpoint of step {}", manifest.step);
  model.parameters = checkpoint::open_model_in(real_files(), std::move(found));
  return model;
}

/// The checkpoint that a folder is by its name, or one of those of a run.
std::optional<checkpoint::Found> find_checkpoint(const std::string& path,
                                                 std::optional<std::int64_t> step) {
  const std::filesystem::path folder = absolute_path(path);
  const auto own_step = checkpoint::parse_step_name(folder.filename().string());
  if (own_step)
    return checkpoint::Store(real_files(), folder.parent_path().string()).open(*own_step);
  const checkpoint::Store store(real_files(), join_path(folder.string(), RunFiles::checkpoints));
  if (step) {
    require_step(store, path, *step);
    return store.open(*step);
  }
  if (checkpoint::find_model(path)) return std::nullopt;
  return store.newest().found;
}

}  // namespace

void require_step(const checkpoint::Store& store, const std::string& run, std::int64_t step) {
  const std::vector<std::int64_t> steps = store.steps();
  if (std::ranges::find(steps, step) != steps.end()) return;
  std::vector<std::string> names;
  for (const std::int64_t there : steps) names.push_back(format("{}", there));
  throw UserError(ExitCode::no_checkpoint,
                  format("{} has no checkpoint of step {}; {}", run, step,
                         names.empty() ? "it has none at all: leave out --step"
                                       : "choose one of " + join(names, ", ")));
}

const std::string& TrainedModel::text_tokenizer() const {
  if (config.family().reads != model::Reads::text)
    throw UserError(ExitCode::bad_config,
                    format("{} is no model of text (model.kind = {}); expected a run of "
                           "model.kind = {}",
                           path, config::kind_word(config.kind),
                           config::kind_words(config::kinds_that_read(model::Reads::text))));
  return tokenizer;
}

TrainedModel open_trained_model(const std::string& path, std::optional<std::int64_t> step) {
  if (!file_exists(path))
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: there is no such folder; give the run.dir of a `fourfold train`, "
                           "or the folder that `fourfold import` made",
                           path));
  if (auto found = find_checkpoint(path, step)) return from_checkpoint(std::move(*found));
  const std::string config = join_path(path, RunFiles::config);
  const auto weights = checkpoint::find_model(path);
  if (!weights || !file_exists(config))
    throw UserError(
        ExitCode::no_checkpoint,
        format("{} holds no trained model: it has no {} and no checkpoint; give the "
               "run.dir of a `fourfold train`, or the folder that `fourfold import` "
               "made",
               path, file_exists(config) ? checkpoint::single_model_file : RunFiles::config));
  TrainedModel model;
  model.config = config::for_kernels_of_cpu(config::load(std::array{config}, {}));
  model.path = path;
  model.tokenizer_place = join_path(path, RunFiles::tokenizer);
  if (model.config.family().reads == model::Reads::text)
    model.tokenizer = trim(read_file(model.tokenizer_place, ExitCode::no_checkpoint));
  model.origin = "the final weights";
  model.parameters = checkpoint::open_model(*weights);
  return model;
}

}  // namespace fourfold::rundir
