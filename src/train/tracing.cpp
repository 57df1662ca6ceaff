#include "train/tracing.h"

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "run/describe.h"
#include "run/gather_recordings.h"
#include "trace/chrome_format.h"
#include "trace/make_timeline.h"

namespace fourfold::train {
namespace {

constexpr op::ProgramKind traced = op::ProgramKind::train;

}  // namespace

void check_trace(std::int64_t steps, std::int64_t num_traced) {
  const std::int64_t needed = num_warm_up_steps + num_traced;
  if (num_traced == 0 || steps >= needed) return;
  throw UserError(
      ExitCode::bad_config,
      format("--trace {} needs {} steps, of which the first {} warm up, but train.steps "
             "= {}; set train.steps = {} or trace fewer",
             num_traced, needed, num_warm_up_steps, steps, needed));
}

Tracing::Tracing(TraceSpec spec, run::Executor& executor, comm::World* world)
    : spec_(std::move(spec)),
      executor_(executor),
      world_(world),
      recorder_(traced, executor.bundle().at(traced).instructions.size(), num_warm_up_steps,
                static_cast<std::size_t>(spec_.num_steps)) {
  executor_.set_recorder(&recorder_);
}

Tracing::~Tracing() {
  executor_.set_recorder(nullptr);
}

void Tracing::step(const StepMetrics& /*metrics*/) {
  if (recorder_.is_full()) write();
}

void Tracing::end(const TrainResult& /*result*/) {
  write();
}

void Tracing::write() {
  if (is_written_ || recorder_.runs().empty()) return;
  is_written_ = true;
  executor_.set_recorder(nullptr);
  const std::vector<trace::Recording> recordings = run::gather_recordings(recorder_, world_);
  if (recordings.empty()) return;
  const trace::Timeline timeline =
      trace::make_timeline(recordings, spec_.program_of, run::describe_rank);
  make_directories(spec_.path.substr(0, spec_.path.rfind('/')));
  write_file_atomic(spec_.path, trace::to_chrome_json(timeline, spec_.predicted));
  spec_.written(timeline);
}

}  // namespace fourfold::train
