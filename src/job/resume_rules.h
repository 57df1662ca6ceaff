// The rules by which a run may go on from a checkpoint: what of its configuration, tokenizer and
// data may differ. Not which checkpoint that is (rundir/resume.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "config/config.h"
#include "data/source.h"
#include "job/job.h"

namespace fourfold::job {

/// True if validation losses of the checkpoint's run and of this one may be compared: they are of
/// the same windows.
bool has_same_validation(const checkpoint::Manifest& manifest, const config::Config& config,
                         const data::Source& source);

/// Errors: UserError(bad_config) that lists every key in the way; UserError(bad_data) where the
/// tokenizer is another one, or the data has another fingerprint and `data` is not among the
/// overrides, which for data of their own for validation may be `data.validation`.
void check_resumable(const checkpoint::Manifest& manifest, const config::Config& config,
                     const data::Source& source, const std::vector<std::string>& overrides);

/// True if all steps are done at that step, as the configuration has it.
bool is_over(const checkpoint::Manifest& manifest, const config::Config& config);

/// What a start of a run was told, and what it finds.
struct GoingOn {
  std::vector<std::string> overrides;
  std::optional<std::int64_t> stop_at;
  bool is_complete = false;  // nothing is left to do where all steps are done
};
/// Checks that the run may go on from a checkpoint that was found. Errors: those of
/// check_resumable; UserError(no_checkpoint) where it does not fit the model;
/// UserError(output_in_use) for a run that is complete; UserError(numeric_stop) for one that ended
/// with numbers that are not finite; UserError(bad_config) where it is to stop before that step.
void check_start(const checkpoint::Found& found, const Job& job, const data::Source& source,
                 const GoingOn& going_on);

}  // namespace fourfold::job
