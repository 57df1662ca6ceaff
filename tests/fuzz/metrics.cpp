// Bytes as metrics.jsonl: what a report reads of them is in order and finite, and what a run that
// goes back keeps and sets aside are lines of the file, each once.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/folder.h"
#include "fuzz/target.h"
#include "report/run_data.h"
#include "rundir/metrics_lines.h"

namespace fourfold {
namespace {

void check_curve(const std::vector<report::Point>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    require(std::isfinite(points[i].x), "a step is a number");
    require(i == 0 || points[i - 1].x < points[i].x, "steps rise");
  }
}

void check(const std::string& path, const std::string& text) {
  const report::Metrics metrics = report::read_metrics(path);
  for (const auto* points : {&metrics.loss, &metrics.val_loss, &metrics.grad_norm, &metrics.lr}) {
    check_curve(*points);
    for (const report::Point& point : *points)
      require(std::isfinite(point.y), "what is no number is left out");
  }
  require((metrics.steps == 0) == !metrics.fault.empty(), "a file without a step has a fault");
  constexpr std::int64_t last_step = 3;
  const std::string later = rundir::metrics_after(path, last_step);
  rundir::cut_metrics(path, last_step);
  require(rundir::metrics_after(path, last_step).empty(), "later lines are gone");
  const std::string kept = read_file(path);
  require(kept.size() + later.size() <= text.size() + 1, "no line is there twice");
  rundir::cut_metrics(path, last_step);
  require(read_file(path) == kept, "what stays stays");
}

}  // namespace
}  // namespace fourfold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  static const fuzz::Folder folder;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const std::string path = folder.path("metrics.jsonl");
  fuzz::write(path, text);
  check(path, text);
  return 0;
}
