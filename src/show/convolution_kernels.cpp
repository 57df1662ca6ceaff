#include "show/convolution_kernels.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text.h"
#include "measure/cuda_parts.h"
#include "op/table.h"

namespace fourfold::show {
namespace {

/// The first major version of cuDNN that is asked at all (kernels/cuda/cudnn_convolution.cpp).
constexpr int least_cudnn = 9;

bool is_convolution(const op::Op& op) {
  return op::work_class(op) == op::WorkClass::product && !op::product_of(op);
}

/// Why cuDNN does not compute all.
std::string reason(const std::vector<machine::CudaLibrary>& libraries) {
  const auto cudnn = std::ranges::find(libraries, "cuDNN", &machine::CudaLibrary::name);
  if (cudnn == libraries.end() || cudnn->built.empty()) return "this build is without cuDNN";
  if (cudnn->loaded.empty()) return "cuDNN cannot be loaded";
  if (std::stoi(cudnn->loaded) < least_cudnn)
    return format("cuDNN {} is older than {}.0", cudnn->loaded, least_cudnn);
  return format("cuDNN {} has no kernel for their shapes", cudnn->loaded);
}

}  // namespace

std::string convolutions_text(const std::vector<std::string>& implementations,
                              const std::vector<machine::CudaLibrary>& libraries) {
  std::vector<std::string> counts;
  const auto count = [&](const char* first_letters, const char* name) {
    const auto calls = std::ranges::count_if(
        implementations, [&](const std::string& one) { return one.starts_with(first_letters); });
    if (calls > 0) counts.push_back(format("{} {}", name, calls));
    return calls;
  };
  count("cudnn", "cuDNN");
  count("cublaslt", "cuBLASLt");
  const bool has_own = count("own", "own kernels") > 0;
  return join(counts, ", ") + (has_own ? ": " + reason(libraries) : "");
}

std::optional<Row> convolutions_row(const job::Job& job) {
  if (job.device != job::Device::cuda || job.target.backend == "none" ||
      job.settled.config().kernels == "reference")
    return std::nullopt;
  const program::Program* const step = job.bundle().find(op::ProgramKind::train);
  std::vector<std::string> implementations;
  if (step != nullptr)
    for (const program::Instruction& one : step->instructions)
      if (const auto* compute = std::get_if<program::Compute>(&one.what);
          compute != nullptr && is_convolution(compute->op))
        implementations.push_back(compute->implementation);
  if (implementations.empty()) return std::nullopt;
  return Row{"convolutions", convolutions_text(implementations, measure::cuda_libraries())};
}

}  // namespace fourfold::show
