// What a family of models is, whatever the sizes of a model: stated once beside its spec, asked by
// everyone who would else ask which family it is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fourfold::model {

/// What a sample is that a model is fed: `data.seq_length` tokens, or one picture.
enum class Reads : std::uint8_t { text, pictures };

/// What a trained model makes: texts by "prefill" and "decode", pictures by "denoise".
enum class Makes : std::uint8_t { nothing, text, pictures };

struct Family {
  std::string_view name;   // "gpt": the word of model.kind
  std::string_view title;  // "GPT": for people
  std::string_view does;   // "writes text": completes a sentence about it
  Reads reads = Reads::text;
  Makes makes = Makes::nothing;
  /// True if all layers are alike, so that the costs of a few tell those of many. The spec then has
  /// a `num_layers`.
  bool has_equal_layers = false;
  /// True if the layers add to one stream, which may be kept in the type of sums. The spec then has
  /// a `wide_residual`.
  bool has_residual_stream = false;
};

/// "tokens", "pictures": what the samples of a step are counted in.
constexpr std::string_view items_word(Reads reads) {
  return reads == Reads::text ? "tokens" : "pictures";
}

/// What a model takes the data to be; 0 and empty: it waits for the data to say so.
struct DataFacts {
  std::int64_t num_labels = 0;        // tokens of the vocabulary, or classes
  std::vector<std::int64_t> picture;  // height, width, channels; of a model that is fed pictures
  bool operator==(const DataFacts&) const = default;
};

}  // namespace fourfold::model
