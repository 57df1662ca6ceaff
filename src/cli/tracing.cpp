#include "cli/tracing.h"

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "run/describe.h"
#include "run/gather_recordings.h"
#include "rundir/run_files.h"
#include "trace/chrome_format.h"
#include "trace/make_timeline.h"

namespace fourfold::cli {
namespace {

constexpr const char* traced = "train";

}  // namespace

void check_trace(const job::Job& job, std::int64_t num_steps) {
  const std::int64_t needed = num_warm_up_steps + num_steps;
  if (num_steps == 0 || job.config.train.steps >= needed) return;
  throw UserError(
      ExitCode::bad_config,
      format("--trace {} needs {} steps, of which the first {} warm up, but train.steps "
             "= {}; set train.steps = {} or trace fewer",
             num_steps, needed, num_warm_up_steps, job.config.train.steps, needed));
}

Tracing::Tracing(const job::Job& job, std::int64_t num_steps, run::Executor& executor,
                 comm::World* world, screen::Log* log)
    : job_(job),
      executor_(executor),
      world_(world),
      log_(log),
      recorder_(traced, executor.bundle().at(traced).instructions.size(), num_warm_up_steps,
                static_cast<std::size_t>(num_steps)) {
  executor_.set_recorder(&recorder_);
}

Tracing::~Tracing() {
  executor_.set_recorder(nullptr);
}

void Tracing::step(const train::StepMetrics& /*metrics*/) {
  if (recorder_.is_full()) write();
}

void Tracing::end(const train::TrainResult& /*result*/) {
  write();
}

void Tracing::write() {
  if (is_written_ || recorder_.runs().empty()) return;
  is_written_ = true;
  executor_.set_recorder(nullptr);
  const std::vector<trace::Recording> recordings = run::gather_recordings(recorder_, world_);
  if (recordings.empty()) return;
  const auto program_of = [&](Rank rank) {
    return job::bundle_of(job_, static_cast<std::int64_t>(rank.index())).at(traced);
  };
  const trace::Timeline timeline = trace::make_timeline(recordings, program_of, run::describe_rank);
  make_directories(join_path(job_.config.dir, rundir::RunFiles::traces));
  const std::string path = join_path(job_.config.dir, rundir::RunFiles::trace);
  write_file_atomic(path, trace::to_chrome_json(timeline));
  if (log_ != nullptr)
    log_->info(
        format("{:<11} {} step{} in {}; look at it with `fourfold trace summary {}` or "
               "in ui.perfetto.dev",
               "trace", recorder_.runs().size(), recorder_.runs().size() == 1 ? "" : "s", path,
               job_.config.dir));
}

}  // namespace fourfold::cli
