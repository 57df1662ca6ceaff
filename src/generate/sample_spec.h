// How text is sampled: filled by config/ and the command line, read by generate/.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::generate {

struct SampleSpec {
  std::string prompt = "\n";
  std::int64_t tokens = 200;  // to generate after the prompt; 0: no sample
  std::int64_t interval = 0;  // steps between samples while training; 0: one, at the end
  double temperature = 0.8;   // 0: always the likeliest token
  std::int64_t top_k = 0;     // sample among the k likeliest; 0: among all
  double top_p = 1;           // sample among the likeliest that have this probability together
  std::uint64_t seed = 1;
  std::int64_t capacity = 0;  // tokens that the model sees at once; 0: as many as it is fed
  bool stops_at_end = true;   // of the document, where the tokenizer has a token for it
  bool operator==(const SampleSpec&) const = default;
};

}  // namespace fourfold::generate
