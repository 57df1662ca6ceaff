// What the ranks of a job send each other in one program, counted from its instructions. Not how
// long that takes: prices are simulate/'s.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace fourfold::program {

/// What a tensor is to a transformer. Told by names, which are those of the model's values
/// (model/gpt.cpp) with the compiler's words behind them: see tensor_class.
enum class TensorClass : std::uint8_t {
  linear,     // weights of blocks; their products' outputs and input gradients
  attention,  // what enters and leaves the core only to share it out: the core's output, the
              // gradient of its input
  norm,       // moments, gradient sums, gains and biases of norms
  bias,       // biases of linears
  embedding,  // tables of tokens (the tied head's too) and positions, and what comes from them
  head,       // weights of the head, its input, the gradient of that, logits
  loss,       // maxima and sums over the vocabulary; loss and token count of a step
  update,     // gradient norm, non-finite count: what decides the update
  other
};
std::string_view to_string(TensorClass tensor);

/// The class of a buffer, or of a field of the result block, by its name. Only the part before the
/// compiler's words counts (such as "/gathered.z", "/raw", "/part", "/packed.y", "/again");
/// "gradient/", "m/" and "v/" in front are read as the parameter behind them.
TensorClass tensor_class(std::string_view buffer_name);

/// Collectives of one kind along one axis on tensors of one class.
struct Traffic {
  std::string axis;       // name of the group; empty for messages between two ranks
  std::string_view kind;  // name of the instruction: "all_reduce"
  TensorClass tensor = TensorClass::other;
  std::int64_t calls = 0;
  /// Bytes of the tensors before they are cut or after they are gathered: what `all_reduce` holds,
  /// the larger side of the others.
  std::int64_t payload_bytes = 0;
  /// Bytes that one rank sends by ring algorithms, for n ranks and payload B: all_reduce 2 (n-1)/n
  /// B, the others (n-1)/n B (Thakur et al. 2005; also what all_to_all sends at least); messages B.
  double sent_bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// By axis in the order of the groups, then kind, then class. Cost: linear in the instructions.
std::vector<Traffic> traffic(const Program& program);

}  // namespace fourfold::program
