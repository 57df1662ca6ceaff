// Where training data comes from: filled by config/, read by data/.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::data {

enum class Format { text, synthetic };
enum class TokenizerKind { character, byte };

struct DataSpec {
  Format format = Format::text;
  std::string path;  // of the text file
  TokenizerKind tokenizer = TokenizerKind::character;
  double split = 0.9;  // the first part of the text is for training, the rest for validation
  std::int64_t seq_length = 64;
  std::int64_t vocab_size = 0;  // synthetic only
  std::uint64_t seed = 0;       // of the run: decides which windows of the text a step sees
  bool operator==(const DataSpec&) const = default;
};

}  // namespace fourfold::data
