#include "job/resume_rules.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/load.h"
#include "config/compare.h"
#include "config/print.h"
#include "config/resume_class.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::job {
namespace {

[[noreturn]] void refuse_complete(const config::Config& config, std::int64_t step) {
  throw UserError(
      ExitCode::output_in_use,
      format("{}: the run is complete, {} of {} steps; to go on raise {}, to begin anew choose "
             "another run.dir or pass --overwrite",
             config.dir, step, config.train.steps,
             step < config.train.steps ? "eval.early_stopping" : "train.steps"));
}

/// The weights know tokens by their numbers, so another tokenizer never will do.
void check_tokenizer(const checkpoint::Manifest& manifest, const tokenizer::Tokenizer& tokenizer) {
  if (manifest.tokenizer == tokenizer.to_text()) return;
  const auto former =
      tokenizer::tokenizer_from_text(manifest.tokenizer, "the checkpoint's tokenizer");
  throw UserError(ExitCode::bad_data,
                  format("the tokenizer has changed since step {}: {} then, {} now; bring the "
                         "former {}",
                         manifest.step, former->fingerprint(), tokenizer.fingerprint(),
                         former->name() == "char" ? "text, of which it is made" : "files"));
}

bool is_override(const std::vector<std::string>& overrides, std::string_view key) {
  return std::find(overrides.begin(), overrides.end(), key) != overrides.end();
}

/// The data of a manifest, or now: what trains, and what validates apart.
struct DataFacts {
  std::string train, validation;
  explicit DataFacts(const std::string& fingerprint) {
    const std::size_t end = fingerprint.find("; ");
    train = fingerprint.substr(0, end);
    if (end != fingerprint.npos) validation = fingerprint.substr(end + 2);
  }
};

void check_data(const checkpoint::Manifest& manifest, const std::string& fingerprint,
                const std::vector<std::string>& overrides) {
  if (is_override(overrides, "data")) return;
  const DataFacts then(manifest.data), now(fingerprint);
  const auto refuse = [&](const char* what, const std::string& a, const std::string& b,
                          const char* key) {
    const auto in_words = [](const std::string& fact) { return fact.empty() ? "none" : fact; };
    throw UserError(ExitCode::bad_data,
                    format("the {} data has changed since step {}: {} then, {} now; bring the "
                           "former, or pass --override {}",
                           what, manifest.step, in_words(a), in_words(b), key));
  };
  if (then.train != now.train) refuse("training", then.train, now.train, "data");
  if (then.validation != now.validation && !is_override(overrides, "data.validation"))
    refuse("validation", then.validation, now.validation, "data.validation");
}

}  // namespace

bool has_same_validation(const checkpoint::Manifest& manifest, const config::Config& config,
                         const data::Source& source) {
  const data::DataSpec then = config::stored(manifest.config).data_spec(), now = config.data_spec();
  const DataFacts before(manifest.data), after(source.fingerprint());
  if (before.validation != after.validation || then.seq_length != now.seq_length) return false;
  const bool is_apart = !after.validation.empty();
  return is_apart || (before.train == after.train && then.split == now.split);
}

void check_resumable(const checkpoint::Manifest& manifest, const config::Config& config,
                     const data::Source& source, const std::vector<std::string>& overrides) {
  config::Config stored = config::stored(manifest.config);
  config::mark_followers(stored);
  std::string conflicts = config::resume_conflicts(config::differences(stored, config), overrides);
  if (!is_override(overrides, "lr_schedule"))
    conflicts += config::schedule_leap(manifest.step, stored, config);
  if (!conflicts.empty())
    throw UserError(ExitCode::bad_config,
                    format("the run cannot continue from step {} with these settings:{}",
                           manifest.step, conflicts));
  if (source.tokenizer() != nullptr) check_tokenizer(manifest, *source.tokenizer());
  check_data(manifest, source.fingerprint(), overrides);
}

bool is_over(const checkpoint::Manifest& manifest, const config::Config& config) {
  const std::int64_t patience = config.train.early_stopping;
  return manifest.step >= config.train.steps || (patience > 0 && manifest.since_best >= patience);
}

void check_start(const checkpoint::Found& found, const Job& job, const data::Source& source,
                 const GoingOn& going_on) {
  const checkpoint::Manifest& manifest = found.manifest;
  check_resumable(manifest, job.settled.config(), source, going_on.overrides);
  checkpoint::check_fits(found, checkpoint::JobState(job.programs));
  if (is_over(manifest, job.settled.config())) {
    if (going_on.is_complete) refuse_complete(job.settled.config(), manifest.step);
    if (!manifest.is_finite)
      throw UserError(ExitCode::numeric_stop,
                      format("{}: the run ended at step {} with numbers that are not finite; go on "
                             "from an earlier checkpoint (--resume)",
                             job.settled.config().dir, manifest.step));
    return;
  }
  if (going_on.stop_at && manifest.step >= *going_on.stop_at)
    throw UserError(ExitCode::bad_config,
                    format("--stop-at {}: the run goes on from step {}; expected more",
                           *going_on.stop_at, manifest.step));
}

}  // namespace fourfold::job
