#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

/// What a crash may cost at most. Lines are small: a flush costs a few microseconds.
constexpr std::chrono::seconds flush_interval{1};
/// The lines that are held for a file which cannot be opened: some ten thousand steps.
constexpr std::size_t most_held_bytes = std::size_t{4} << 20;

}  // namespace

Json to_json(const StepMetrics& metrics) {
  Json line = Json::object();
  line.set("step", metrics.step).set("loss", metrics.loss);
  if (metrics.evaluation) {
    line.set("val_loss", metrics.evaluation->loss);
    if (metrics.evaluation->is_larger())
      line.set("val_loss_compared", metrics.evaluation->compared_loss);
    if (metrics.evaluation->is_of_averages) line.set("val_weights", "averages");
    if (metrics.evaluation->accuracy) line.set("val_accuracy", *metrics.evaluation->accuracy);
  }
  line.set("lr", metrics.lr)
      .set("grad_norm", metrics.grad_norm)
      .set("step_time_s", metrics.time_s)
      .set(format("{}_per_s", metrics.unit.plural), metrics.items_per_s)
      .set("tflops", metrics.model_flops_per_s / 1e12);
  if (metrics.utilization) line.set("mfu", metrics.utilization->mfu);
  if (metrics.utilization && metrics.utilization->hfu) line.set("hfu", *metrics.utilization->hfu);
  if (metrics.exposed_communication_s)
    line.set("exposed_communication_s", *metrics.exposed_communication_s);
  if (metrics.compute)
    line.set("compute_time_s", metrics.compute->median_s)
        .set("slowest_compute_time_s", metrics.compute->slowest_s)
        .set("slowest_rank", static_cast<std::int64_t>(metrics.compute->slowest_rank));
  line.set("memory_bytes", metrics.memory_bytes)
      .set("peak_resident_bytes", metrics.peak_resident_bytes);
  if (metrics.evaluation) line.set("val_time_s", metrics.evaluation->time_s);
  if (!metrics.sample.empty()) line.set("sample", metrics.sample);
  return line;
}

namespace {

/// Opens without waiting for a reader of a pipe. Negative: errno says why.
int open_to_append(const std::string& path, int more) {
  int file = -1;
  do {
    file =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | more, 0666);
  } while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, Existing existing, Warn warn)
    : path_(path), warn_(std::move(warn)), last_flush_(std::chrono::steady_clock::now()) {
  file_ = open_to_append(path, existing == Existing::replace ? O_TRUNC : 0);
  if (file_ < 0) complain(errno);
}

MetricsFile::~MetricsFile() {
  flush();
  if (file_ >= 0) close(file_);
}

void MetricsFile::step(const StepMetrics& metrics) {
  held_ += to_json(metrics).dump();
  held_ += '\n';
  if (std::chrono::steady_clock::now() - last_flush_ >= flush_interval) flush();
}

void MetricsFile::end(const TrainResult&) {
  flush();
  lines_lost_ += std::count(held_.begin(), held_.end(), '\n');
  held_.clear();
  if (lines_lost_ > 0)
    warn_(format("{}: {} {} lost", path_, counted(lines_lost_, "line"),
                 lines_lost_ == 1 ? "was" : "were"));
}

void MetricsFile::flush() {
  last_flush_ = std::chrono::steady_clock::now();
  // What could not be opened before may be there now: lines are held for it.
  if (file_ < 0) file_ = open_to_append(path_, 0);
  if (file_ < 0 && held_.size() < most_held_bytes) return;
  if (torn_ && !held_.empty()) held_.insert(0, "\n");
  std::size_t written = 0;
  while (file_ >= 0 && written < held_.size()) {
    const ssize_t count = write(file_, held_.data() + written, held_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      complain(errno);
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  lines_lost_ +=
      std::count(held_.begin() + static_cast<std::ptrdiff_t>(written), held_.end(), '\n');
  if (written > 0) torn_ = held_[written - 1] != '\n';
  held_.clear();
}

void MetricsFile::complain(int error_number) {
  if (std::exchange(complained_, true)) return;
  warn_(format("{}: {}; the run goes on, but metrics of some steps will be missing there", path_,
               std::strerror(error_number)));
}

}  // namespace fourfold::train
