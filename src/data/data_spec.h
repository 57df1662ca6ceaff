// Where training data comes from: filled by config/, read by data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/bad_pictures.h"
#include "data/format.h"
#include "data/picture_shape.h"
#include "tokenizer/tokenizer_kind.h"

namespace fourfold::data {

/// A set of tokens and its part in a blend, relative to the others.
struct BlendPart {
  std::string path;
  double weight = 1;
  bool operator==(const BlendPart&) const = default;
};

struct DataSpec {
  Format format = {};
  std::string path;  // a text; PREFIX of a Megatron set; a folder of llm.c shards, or one; pictures
  std::vector<BlendPart> blend;  // of token sets, instead of `path`
  tokenizer::TokenizerKind tokenizer = tokenizer::TokenizerKind::character;
  /// sentencepiece: a .model file; gpt2: a folder; hub: a folder, or its tokenizer.json
  std::string tokenizer_path;
  double split = 0.9;  // the first part of the text is for training, the rest for validation
  /// A path of the same format: validates in place of that rest, and all the others train.
  std::string validation;
  std::int64_t seq_length = 64;
  /// True if samples say where their documents begin, so that attention stops at the borders, or
  /// positions restart there.
  bool mask_documents = false, restart_positions = false;
  std::int64_t samples_per_step = 0;  // of all ranks
  std::int64_t vocab_size = 0;        // of the model; synthetic data, and sets of unknown tokens
  std::uint64_t seed = 0;             // of the run: decides which samples a step sees
  /// True if the samples are pictures: those of every picture format, and synthetic ones for a
  /// model that looks at pictures. `picture` and `num_classes` then say which.
  bool is_of_pictures = false;
  PictureShape picture;
  std::int64_t num_classes = 0;
  BadPictures bad_images;
  bool flip = false;  // half of all training samples are mirrored, left to right
  bool operator==(const DataSpec&) const = default;
};

}  // namespace fourfold::data
