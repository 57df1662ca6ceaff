// Whether a run may go on from a checkpoint: what of its configuration, tokenizer and data may
// differ. Not which checkpoint that is (rundir/resume.h).
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "config/config.h"
#include "data/source.h"

namespace fourfold::job {

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
                     const data::Source& source, const std::vector<std::string>& overrides);

}  // namespace fourfold::job
