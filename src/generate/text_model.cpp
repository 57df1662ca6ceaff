#include "generate/text_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "generate/numbers.h"

namespace fourfold::generate {
namespace {

/// Feeds one sequence of tokens, padded with 0.
class SequenceFeeder final : public run::Feeder {
 public:
  explicit SequenceFeeder(std::span<const std::int32_t> tokens) : tokens_(tokens) {}

  void feed(const Input& input, const run::Samples& /*samples*/,
            std::span<std::byte> into) override {
    require(input.name == "tokens", "programs that generate are fed tokens alone");
    const std::span<const std::byte> bytes = std::as_bytes(tokens_);
    require(bytes.size() <= into.size(), "the tokens fit the program's length");
    const auto rest = std::copy(bytes.begin(), bytes.end(), into.begin());
    std::fill(rest, into.end(), std::byte{0});
  }

 private:
  std::span<const std::int32_t> tokens_;
};

/// How many tokens a program takes.
std::int64_t length_of(const program::Program& program) {
  require(program.inputs.size() == 1 && program.inputs[0].sample_shape.rank() == 1,
          "a program that generates takes a sequence of tokens");
  return program.inputs[0].sample_shape[0];
}

std::vector<double> read_logits(const program::Program& program, run::Executor& executor) {
  const auto id = program.find_buffer("logits");
  require(id.has_value(), "a program that generates has a buffer named logits");
  const program::Buffer& buffer = program.buffer(*id);
  const auto bytes = executor.read(buffer);
  return numbers_of({bytes.data(), bytes.size()}, buffer.dtype);
}

}  // namespace

TextModel::TextModel(run::Executor& executor, std::int64_t capacity)
    : executor_(executor),
      capacity_(capacity > 0 ? capacity
                             : length_of(executor.bundle().at(op::ProgramKind::prefill))) {
  const program::Program& decode = executor.bundle().at(op::ProgramKind::decode);
  require(decode.inputs.empty() || length_of(decode) == 1, "the decode program takes one token");
}

std::vector<double> TextModel::prefill(std::span<const std::int32_t> tokens) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  require(num_tokens >= 1 && num_tokens <= capacity_, "prefilled tokens fit the key/value cache");
  num_cached_ = num_tokens;
  return run(op::ProgramKind::prefill, tokens, 0, num_tokens - 1);
}

std::vector<double> TextModel::decode(std::int32_t token) {
  require(num_cached_ >= 1 && num_cached_ < capacity_,
          "a decoded token has a place in the key/value cache");
  return run(op::ProgramKind::decode, {&token, 1}, num_cached_++, 0);
}

std::vector<double> TextModel::run(op::ProgramKind program, std::span<const std::int32_t> tokens,
                                   std::int64_t position, std::int64_t index) {
  require(std::in_range<std::int32_t>(position) && std::in_range<std::int32_t>(index),
          "a position fits 32 bits");
  op::StepBlock step;
  step.position = static_cast<std::int32_t>(position);
  step.index = static_cast<std::int32_t>(index);
  SequenceFeeder feeder(tokens);
  executor_.run(program, step, &feeder);
  return read_logits(executor_.bundle().at(program), executor_);
}

}  // namespace fourfold::generate
