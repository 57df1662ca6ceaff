// How text is sampled: filled by config/ and the command line, read by generate/.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::generate {

struct SampleSpec {
  std::string prompt = "\n";
  std::int64_t tokens = 200;  // to generate after the prompt; 0: no sample
  double temperature = 0.8;   // 0: always the likeliest token
  std::int64_t top_k = 0;     // sample among the k likeliest; 0: among all
  std::uint64_t seed = 1;
  bool operator==(const SampleSpec&) const = default;
};

}  // namespace fourfold::generate
