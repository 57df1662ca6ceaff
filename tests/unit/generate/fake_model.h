// A backend that runs no kernels: a model whose next token is a fixed function of all tokens in its
// cache, so that a test sees at once when the cache holds a wrong token at any place.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "run/backend.h"

namespace fourfold::generate {

/// The token that follows `context`.
inline std::int32_t next_token(std::span<const std::int32_t> context, std::int32_t vocab_size) {
  std::uint64_t hash = context.size();
  for (const std::int32_t token : context)
    hash = hash * 1000003 + static_cast<std::uint64_t>(token) + 1;
  return static_cast<std::int32_t>((hash >> 7) % static_cast<std::uint64_t>(vocab_size));
}

inline program::Program fake_program(op::ProgramKind kind, std::int64_t length,
                                     std::int64_t vocab_size, DType dtype) {
  program::Program program;
  program.kind = kind;
  program.streams = {"math"};
  program.feeds = {.micros = 1, .samples = 1, .first = 0, .count = 1};
  program.inputs = {{"tokens", DType::i32, {length}}};
  const auto add = [&](const std::string& buffer, DType type, const Shape& shape,
                       program::BufferRole role, std::int64_t size) {
    program::Buffer result;
    result.name = buffer;
    result.dtype = type;
    result.global = shape;
    result.role = role;
    result.size_bytes = size;
    program.buffers.push_back(result);
  };
  add("step", DType::i64, Shape{}, program::BufferRole::step_block, sizeof(op::StepBlock));
  add("tokens", DType::i32, Shape{1, length}, program::BufferRole::feed, 4 * length);
  add("logits", dtype, Shape{1, 1, vocab_size}, program::BufferRole::output,
      vocab_size * size_bytes(dtype));
  program.instructions.push_back(
      {program::StreamId(0),
       program::Feed{program::InputId(0), 0, program.whole(program::BufferId(1))}});
  return program;
}

inline program::Bundle fake_bundle(std::int64_t capacity, std::int64_t vocab_size,
                                   DType dtype = DType::f32) {
  return {.programs = {fake_program(op::ProgramKind::prefill, capacity, vocab_size, dtype),
                       fake_program(op::ProgramKind::decode, 1, vocab_size, dtype)}};
}

class FakeModel final : public run::Backend {
 public:
  /// Logits after `vocab_size`, where the program has more, are the largest of all.
  explicit FakeModel(std::int32_t vocab_size) : vocab_size_(vocab_size) {}

  struct Call {
    op::ProgramKind program = op::ProgramKind::prefill;
    std::int32_t position, index;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;

  void bind(const program::Bundle& bundle) override {
    bundle_ = &bundle;
    cache_.resize(
        static_cast<std::size_t>(bundle.at(op::ProgramKind::prefill).inputs[0].sample_shape[0]));
  }
  void begin(run::ProgramId program, const op::StepBlock& step, run::Feeder* feeder) override {
    program_ = &bundle_->programs[program.index()];
    step_ = step;
    feeder_ = feeder;
  }
  void issue(run::ProgramId, std::size_t) override {
    const Input& tokens = program_->inputs[0];
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens.sample_shape[0]), -7);
    feeder_->feed(tokens, {0, 0, 1}, std::as_writable_bytes(std::span(ids)));
    calls.push_back({program_->kind, step_.position, step_.index});
    for (auto behind = ids.begin() + step_.index + 1; behind != ids.end(); ++behind)
      require(*behind == 0, "tokens behind the last are padded with 0");
    const auto position = static_cast<std::size_t>(step_.position);
    require(position + ids.size() <= cache_.size(), "the fake model's cache holds the tokens");
    std::copy(ids.begin(), ids.end(), cache_.begin() + step_.position);
    write_logits(std::span(cache_).first(position + static_cast<std::size_t>(step_.index) + 1));
  }
  void finish() override {}
  op::ResultBlock result() override { return {}; }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t) override {
    auto& memory = memory_[buffer.name];
    memory.resize(static_cast<std::size_t>(buffer.size_bytes));
    return std::span(memory);
  }

 private:
  void write_logits(std::span<const std::int32_t> context) {
    const program::Buffer& buffer = program_->buffer(*program_->find_buffer("logits"));
    std::vector<double> logits(static_cast<std::size_t>(buffer.global.back()), 1000);
    std::fill_n(logits.begin(), vocab_size_, 0.0);
    logits[static_cast<std::size_t>(next_token(context, vocab_size_))] = 50;
    const auto into = bytes(buffer, 0);
    const std::vector<float> rounded(logits.begin(), logits.end());
    const std::vector<BFloat16> short_ones(rounded.begin(), rounded.end());
    const void* from = rounded.data();
    if (buffer.dtype == DType::f64) from = logits.data();
    if (buffer.dtype == DType::bf16) from = short_ones.data();
    std::memcpy(into.data(), from, into.size());
  }

  std::int32_t vocab_size_;
  const program::Bundle* bundle_ = nullptr;
  const program::Program* program_ = nullptr;
  op::StepBlock step_;
  run::Feeder* feeder_ = nullptr;
  std::vector<std::int32_t> cache_;
  std::map<std::string, std::vector<std::byte>> memory_;
};

}  // namespace fourfold::generate
