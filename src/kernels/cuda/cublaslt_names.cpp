// What names of implementations mean to cuBLASLt; needs no library.
#include <charconv>

#include "base/text.h"
#include "kernels/cuda/cublaslt.h"

namespace fourfold::kernels::cuda::cublaslt {
namespace {

constexpr std::string_view full_name = "cublaslt", tf32_name = "cublaslt_tf32";

std::optional<AlgorithmNumbers> numbers_of(std::string_view text) {
  const std::vector<std::string> words = split(std::string(text), '.');
  AlgorithmNumbers numbers{};
  if (words.size() != numbers.size()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const end = words[i].data() + words[i].size();
    const auto [stop, error] = std::from_chars(words[i].data(), end, numbers[i]);
    if (error != std::errc{} || stop != end) return std::nullopt;
  }
  return numbers;
}

}  // namespace

std::optional<Method> method_of(std::string_view implementation) {
  Method method;
  if (const auto slash = implementation.find('/'); slash != std::string_view::npos) {
    const std::string_view which = implementation.substr(slash + 1);
    implementation = implementation.substr(0, slash);
    if (which.size() == 1) {
      method.candidate = which[0] - '0';
      if (method.candidate < 1 || method.candidate >= max_candidates) return std::nullopt;
    } else {
      method.numbers = numbers_of(which);
      if (!method.numbers) return std::nullopt;
    }
  }
  if (implementation == tf32_name)
    method.precision = Precision::tf32;
  else if (implementation != full_name)
    return std::nullopt;
  return method;
}

std::string name_of(const Method& method) {
  std::string name(method.precision == Precision::tf32 ? tf32_name : full_name);
  if (method.numbers) {
    char mark = '/';
    for (const std::uint32_t number : *method.numbers) {
      name += mark + std::to_string(number);
      mark = '.';
    }
  } else if (method.candidate > 0) {
    name += '/' + std::to_string(method.candidate);
  }
  return name;
}

}  // namespace fourfold::kernels::cuda::cublaslt
