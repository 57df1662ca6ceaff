#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/format.h"

namespace fourfold::train {
namespace {

/// What a crash may cost at most. Lines are small: a flush costs a few microseconds.
constexpr std::chrono::seconds flush_interval{1};

}  // namespace

Json to_json(const StepMetrics& metrics) {
  Json line = Json::object();
  line.set("step", metrics.step).set("loss", metrics.loss);
  if (metrics.evaluation) line.set("val_loss", metrics.evaluation->loss);
  line.set("lr", metrics.lr)
      .set("grad_norm", metrics.grad_norm)
      .set("step_time_s", metrics.time_s)
      .set("tokens_per_s", metrics.tokens_per_s)
      .set("tflops", metrics.model_flops_per_s / 1e12);
  if (metrics.mfu) line.set("mfu", *metrics.mfu);
  if (metrics.exposed_communication_s)
    line.set("exposed_communication_s", *metrics.exposed_communication_s);
  if (metrics.compute)
    line.set("compute_time_s", metrics.compute->median_s)
        .set("slowest_compute_time_s", metrics.compute->slowest_s)
        .set("slowest_rank", static_cast<std::int64_t>(metrics.compute->slowest_rank));
  line.set("memory_bytes", metrics.memory_bytes)
      .set("peak_resident_bytes", metrics.peak_resident_bytes);
  if (metrics.evaluation) line.set("val_time_s", metrics.evaluation->time_s);
  return line;
}

void keep_metrics(const std::string& path, std::int64_t last_step) {
  if (!file_exists(path)) return;
  std::istringstream text(read_file(path));
  std::string kept;
  for (std::string line; std::getline(text, line);) {
    try {
      const Json values = parse_json(line, path);
      const Json* step = values.find("step");
      if (step != nullptr && step->as_integer() <= last_step) kept += line + "\n";
    } catch (const UserError&) {
      // Torn when the run was killed.
    }
  }
  write_file_atomic(path, kept);
}

MetricsFile::MetricsFile(const std::string& path, Existing existing, Warn warn)
    : path_(path), warn_(std::move(warn)), last_flush_(std::chrono::steady_clock::now()) {
  const int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  file_ = open(path.c_str(), existing == Existing::replace ? how | O_TRUNC : how, 0666);
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
  if (lines_lost_ > 0) warn_(format("{}: {} lines were lost", path_, lines_lost_));
}

void MetricsFile::flush() {
  last_flush_ = std::chrono::steady_clock::now();
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
