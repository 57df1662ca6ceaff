#include "interop/tensorboard_log.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "interop/tensorboard_events.h"

namespace fourfold::interop {
namespace {

EventTime now(std::int64_t step) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(since_1970).count(), step};
}

/// True if records of an earlier start are there. A folder that cannot be read is the writer's to
/// tell.
bool has_files(FileSystem& files, const std::string& folder) {
  try {
    return files.exists(folder) && !files.list(folder).empty();
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

TensorboardLog::TensorboardLog(FileSystem& files, const std::string& folder,
                               std::int64_t first_step,
                               std::function<void(const std::string&)> warn)
    : is_restart_(has_files(files, folder)),
      writer_(files, {.folder = folder, .host = host_facts().name}, warn),
      warn_(std::move(warn)),
      last_step_(first_step) {
  if (is_restart_) writer_.add(restart_record(now(first_step + 1)));
}

TensorboardLog::~TensorboardLog() {
  const std::int64_t dropped = writer_.finish();
  if (dropped > 0)
    warn_(format("{} record{} for TensorBoard could not be written and {} missing there", dropped,
                 dropped == 1 ? "" : "s", dropped == 1 ? "is" : "are"));
}

void TensorboardLog::step(const train::StepMetrics& metrics) {
  constexpr double ms = 1e3, tera = 1e12, gib = 1 << 30;
  last_step_ = metrics.step;
  const std::string rate = format("perf/{}_per_s", metrics.unit.plural);
  std::vector<Scalar> scalars = {
      {"train/loss", metrics.loss},
      {"train/grad_norm", metrics.grad_norm},
      {"train/lr", metrics.lr},
      {"perf/step_ms", metrics.time_s * ms},
      {rate, metrics.items_per_s},
      {"perf/tflops", metrics.model_flops_per_s / tera},
      {"mem/peak_gib", static_cast<double>(metrics.peak_resident_bytes) / gib}};
  if (metrics.utilization) scalars.push_back({"perf/mfu", metrics.utilization->mfu});
  if (metrics.utilization && metrics.utilization->hfu)
    scalars.push_back({"perf/hfu", *metrics.utilization->hfu});
  if (metrics.exposed_communication_s)
    scalars.push_back({"perf/comm_exposed_ms", *metrics.exposed_communication_s * ms});
  if (metrics.evaluation) {
    scalars.push_back({metrics.evaluation->is_of_averages ? "val/loss_of_averages" : "val/loss",
                       metrics.evaluation->loss});
    if (metrics.evaluation->accuracy)
      scalars.push_back({"val/accuracy", *metrics.evaluation->accuracy});
  }
  writer_.add(scalars_record(now(metrics.step), scalars));
  if (!metrics.sample.empty()) text("samples/text", as_block(metrics.sample));
}

void TensorboardLog::end(const train::TrainResult&) {}

void TensorboardLog::text(std::string_view tag, std::string_view markdown) {
  writer_.add(text_record(now(last_step_), tag, markdown));
}

std::string as_block(std::string_view text) {
  std::string block = "    ";
  for (const char letter : text) {
    block += letter;
    if (letter == '\n') block += "    ";
  }
  return block;
}

}  // namespace fourfold::interop
