// From which checkpoint a run continues, and whether its configuration may.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "comm/world.h"
#include "config/config.h"
#include "data/source.h"

namespace fourfold::cli {

/// What `--resume` says: "auto" continues the run of the run directory if it has checkpoints,
/// "never" does not, anything else is the path of a run directory, its folder of checkpoints, or
/// one checkpoint.
struct ResumeChoice {
  std::string how = "auto";
  std::vector<std::string> overrides;  // keys that may differ though they change what is learned
};

struct ResumePoint {
  checkpoint::Found found;
  std::vector<checkpoint::Refused> refused;  // newer ones that are damaged
  bool is_exact = false;                     // this one was named, and no other will do
};

/// Rank 0's, on all ranks, which call together.
std::optional<ResumePoint> share(const std::optional<ResumePoint>& point, comm::World& world);

/// For rank 0, which tells the others. Nothing: the run starts anew. Errors:
/// UserError(no_checkpoint) where there are only damaged ones, or none at the path that was named.
std::optional<ResumePoint> find_resume_point(const std::string& how, const std::string& run_dir);

/// The configuration that wrote the checkpoint.
config::Config stored_config(const checkpoint::Manifest& manifest);

/// Whether validation losses of the checkpoint's run and of this one may be compared: they are of
/// the same windows.
bool has_same_validation(const checkpoint::Manifest& manifest, const config::Config& config,
                         const data::Source& source);

/// Errors: UserError(bad_config) that lists every key in the way; UserError(bad_data) where the
/// tokenizer is another one, or the data has another fingerprint and `data` is not among the
/// overrides, which for data of their own for validation may be `data.validation`.
void check_resumable(const checkpoint::Manifest& manifest, const config::Config& config,
                     const data::Source& source, const ResumeChoice& choice);

}  // namespace fourfold::cli
