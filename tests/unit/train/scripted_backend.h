// A backend that computes nothing: it feeds programs and lets a function say what came out. For
// tests of train/.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/format.h"
#include "data/token_source.h"
#include "run/backend.h"
#include "unit/run/handmade.h"

namespace fourfold::train {

class ScriptedBackend : public run::Backend {
 public:
  struct Call {
    op::ProgramKind program = op::ProgramKind::train;
    op::StepBlock step;
    std::int64_t labels = 0;  // fed and not -1
  };
  using Script = std::function<op::ResultBlock(const Call&)>;
  explicit ScriptedBackend(Script script) : script_(std::move(script)) {}

  std::vector<Call> calls;
  /// True if steps may begin ahead; then: what began and finished, in order, "+3 +4 -3 ...".
  bool is_ahead = false;
  std::string order;
  std::int64_t count(op::ProgramKind program) const {
    return std::ranges::count(calls, program, &Call::program);
  }

  void bind(const program::Bundle& bundle) override {
    bundle_ = &bundle;
    memory_.resize(static_cast<std::size_t>(bundle.persistent_bytes + bundle.transient_bytes));
  }
  void begin(run::ProgramId program, const op::StepBlock& step, run::Feeder* feeder) override {
    program_ = &bundle_->programs[program.index()];
    step_ = step;
    feeder_ = feeder;
    labels_ = 0;
  }
  void issue(run::ProgramId, std::size_t instruction) override {
    const auto* feed = std::get_if<program::Feed>(&program_->instructions[instruction].what);
    if (feed != nullptr) {
      const auto memory = bytes(program_->buffer(feed->to.buffer), step_.step & 1);
      const program::Feeds& feeds = program_->feeds;
      const Input& input = program_->inputs[feed->input.index()];
      feeder_->feed(input, {step_.step, feed->micro * feeds.samples + feeds.first, feeds.count},
                    memory);
      const auto ids = run::as<std::int32_t>(memory);
      if (input.name == "labels")
        labels_ += std::ranges::count_if(ids, [](std::int32_t id) { return id >= 0; });
    }
    if (instruction + 1 < program_->instructions.size()) return;
    calls.push_back({program_->kind, step_, labels_});
    results_.push_back(script_(calls.back()));
    if (program_->kind == op::ProgramKind::train) order += format("+{} ", step_.step);
  }
  bool runs_ahead() const override { return is_ahead; }
  void finish() override {
    if (results_.empty()) return;
    result_ = results_.front();
    results_.pop_front();
    if (program_->kind == op::ProgramKind::train)
      order += format("-{} ", step_.step - static_cast<std::int64_t>(results_.size()));
  }
  op::ResultBlock result() override { return result_; }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override {
    const bool transient = buffer.region == program::Region::transient;
    const std::int64_t begin = (transient ? bundle_->persistent_bytes : 0) + buffer.offset_bytes +
                               (buffer.two_by_parity ? parity * buffer.size_bytes : 0);
    return std::span(memory_).subspan(static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(buffer.size_bytes));
  }

 private:
  Script script_;
  const program::Bundle* bundle_ = nullptr;
  std::vector<std::byte> memory_;
  const program::Program* program_ = nullptr;
  op::StepBlock step_;
  std::deque<op::ResultBlock> results_;  // of programs that have not finished
  op::ResultBlock result_;
  std::int64_t labels_ = 0;
  run::Feeder* feeder_ = nullptr;
};

/// A program with blocks, one weight, and a feed of tokens and labels for every micro-batch.
inline program::Program fed_program(op::ProgramKind kind, const program::Feeds& feeds) {
  run::Handmade made(kind);
  made.step_block();
  made.result_block();
  made.buffer("weight", DType::f32, {4}, program::Region::persistent,
              program::BufferRole::parameter);
  const auto tokens = made.tokens("tokens", feeds, 16), labels = made.tokens("labels", feeds, 16);
  for (std::int64_t micro = 0; micro < feeds.micros; ++micro) {
    made.add("feed", made.feed(tokens, micro));
    made.add("feed", made.feed(labels, micro));
  }
  return made.program();
}

/// init, train (3 micro-batches of 2 samples) and evaluate (4 samples), 16 tokens a sample.
inline program::Bundle training_bundle() {
  run::Handmade init(op::ProgramKind::init);
  init.step_block();
  init.result_block();
  const auto weight = init.buffer("weight", DType::f32, {4}, program::Region::persistent,
                                  program::BufferRole::parameter);
  init.add("math", program::Copy{init.whole(weight), init.whole(weight)});
  return run::Handmade::bundle_of({init.program(),
                                   fed_program(op::ProgramKind::train, {3, 2, 0, 2}),
                                   fed_program(op::ProgramKind::evaluate, {1, 4, 0, 4})});
}

inline data::DataSpec synthetic_data() {
  data::DataSpec spec;
  spec.format = data::Format::synthetic;
  spec.split = 0.999;
  spec.seq_length = 16;
  spec.vocab_size = 32;
  spec.seed = 7;
  return spec;
}

}  // namespace fourfold::train
