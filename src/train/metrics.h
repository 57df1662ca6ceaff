// What is known about a step and a run once they are done, and metrics.jsonl. Not what is printed
// for people: console.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "train/observer.h"

namespace fourfold::train {

/// {"step":120,"loss":2.1234...,...}: every value in full precision, those that do not apply left
/// out.
Json to_json(const StepMetrics& metrics);

/// Appends one line per step to a file. Trouble with the disk never stops a run: it is told once,
/// and how many lines were lost at the end. A file that cannot be opened is tried again.
class MetricsFile : public Observer {
 public:
  enum class Existing { keep, replace };
  using Warn = std::function<void(const std::string&)>;
  MetricsFile(const std::string& path, Existing existing, Warn warn);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// Writes what is still held back.
  ~MetricsFile() override;

  /// Whole lines go to the file, about once in a second.
  void step(const StepMetrics& metrics) override;
  void end(const TrainResult& result) override;
  void saving() override { flush(); }

 private:
  void flush();
  void complain(int error_number);

  std::string path_;
  Warn warn_;
  int file_ = -1;  // as open(2) gives it; negative: not open
  std::string held_;
  std::chrono::steady_clock::time_point last_flush_;
  bool torn_ = false;  // the file ends in a part of a line
  bool complained_ = false;
  std::int64_t lines_lost_ = 0;
};

}  // namespace fourfold::train
