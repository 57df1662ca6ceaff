// The parameters of a GPT under our names and under those of Hugging Face's GPT-2. Not files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "model/gpt_spec.h"

namespace fourfold::interop {

/// One parameter. Both sides store weights [in, out] and Q, K, V one after another, each with its
/// heads one after another, so the bytes are the same ones, but for a head that is not tied.
struct Gpt2Tensor {
  std::string ours;
  Shape our_shape;
  std::string theirs;  // without the prefix "transformer."
  Shape their_shape;
  bool is_transposed = false;  // a matrix
  bool is_zero = false;        // a bias that our model has not: zeros compute the same
};

/// All of them, in the order of the model; `lm_head.weight` only where the head is not tied.
std::vector<Gpt2Tensor> gpt2_tensors(const model::GptSpec& spec);

inline constexpr std::string_view gpt2_prefix = "transformer.";
inline constexpr std::string_view gpt2_head = "lm_head.weight";

/// "transformer.wte.weight"; the head has no prefix.
std::string gpt2_full_name(const Gpt2Tensor& tensor);

/// A name in a file without the prefix, where it has one.
std::string_view without_prefix(std::string_view name);
/// The causal masks that old files hold beside the parameters.
bool is_mask(std::string_view name);

/// (R, C) to (C, R), row-major, elements of so many bytes.
std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, const Shape& shape_RC,
                                  std::size_t element_bytes);

}  // namespace fourfold::interop
