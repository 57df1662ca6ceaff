// A GPT compiled and bound for tests, with direct access to its tensors. Header only.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/gpt.h"
#include "plan/plan.h"
#include "run/cpu.h"
#include "run/executor.h"

namespace fourfold::test {

struct RunSetup {
  model::GptSpec gpt{.num_layers = 2,
                     .num_attention_heads = 2,
                     .hidden_size = 8,
                     .ffn_hidden_size = 32,
                     .max_position_embeddings = 6,
                     .vocab_size = 11};
  plan::PlanSpec plan{.global_batch_size = 4, .micro_batch_size = 2, .seq_length = 6};
  graph::AdamWSpec optimizer;
  model::GptForm form;
  bool masks_documents = false, restarts_positions = false;
  bool reference_kernels = false;
  bool fusion = true;
  /// Changes what the program is compiled for.
  std::function<void(machine::Target&)> edit_target = {};
  run::CpuOptions cpu{.threads = 2};
  /// Which tokens of the batch, counted over all samples, have no label besides every seventh.
  std::function<bool(std::int64_t)> masked;
};

/// Feeds a fixed batch of (samples, length) ids; document starts where they are asked for.
class FixedFeeder : public run::Feeder {
 public:
  FixedFeeder(std::vector<std::int32_t> tokens, std::vector<std::int32_t> labels,
              std::vector<std::int32_t> document_starts = {})
      : sources_{std::move(tokens), std::move(labels), std::move(document_starts)} {}

  void feed(program::FeedKind kind, const program::Feeds& feeds, std::int64_t, std::int64_t micro,
            std::span<std::int32_t> ids) override {
    const auto& source = sources_[static_cast<std::size_t>(kind)];
    const auto first =
        static_cast<std::size_t>((micro * feeds.samples + feeds.first) * feeds.length);
    require(first + ids.size() <= source.size(), "the fixed batch has every sample that is fed");
    std::memcpy(ids.data(), source.data() + first, ids.size_bytes());
  }

 private:
  std::array<std::vector<std::int32_t>, program::feed_kinds.size()> sources_;
};

/// Random tokens, labels of which every seventh is missing, and documents of random lengths.
inline FixedFeeder random_batch(const RunSetup& setup, std::uint64_t seed = 7) {
  const Random random(seed, random_stream("test.batch"));
  std::vector<std::int32_t> tokens, labels, starts;
  const std::int64_t count = setup.plan.global_batch_size * setup.plan.seq_length;
  const auto vocab = static_cast<std::uint64_t>(setup.gpt.vocab_size);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    tokens.push_back(static_cast<std::int32_t>(random.below(vocab, element, 0)));
    const bool masked = i % 7 == 3 || (setup.masked && setup.masked(i));
    labels.push_back(masked ? -1 : static_cast<std::int32_t>(random.below(vocab, element, 1)));
    const auto t = static_cast<std::int32_t>(i % setup.plan.seq_length);
    const bool begins = t == 0 || random.below(3, element, 2) == 0;
    starts.push_back(begins ? t : starts.back());
  }
  return {std::move(tokens), std::move(labels), std::move(starts)};
}

class SmallRun {
 public:
  explicit SmallRun(const RunSetup& setup) : setup_(setup), bundle_(compile_bundle(setup)) {
    auto cpu = std::make_unique<run::CpuBackend>(setup.cpu);
    cpu_ = cpu.get();
    backend_ = std::move(cpu);
    executor_ = std::make_unique<run::Executor>(bundle_, *backend_);
  }
  /// On another device.
  SmallRun(const RunSetup& setup, const machine::Target& target,
           std::unique_ptr<run::Backend> backend)
      : setup_(setup), bundle_(compile_bundle(setup, target)), backend_(std::move(backend)) {
    executor_ = std::make_unique<run::Executor>(bundle_, *backend_);
  }

  static program::Bundle compile_bundle(const RunSetup& setup) {
    auto target = setup.reference_kernels ? kernels::cpu::reference_target()
                                          : kernels::cpu::target(setup.cpu.threads);
    if (!setup.fusion) target.fusions.clear();
    if (setup.edit_target) setup.edit_target(target);
    return compile_bundle(setup, target);
  }
  static program::Bundle compile_bundle(const RunSetup& setup, const machine::Target& target) {
    const auto graphs = model::build_gpt(
        setup.gpt,
        {setup.plan.micro_batch_size, setup.plan.seq_length, setup.plan.global_batch_size,
         setup.masks_documents, setup.restarts_positions},
        setup.optimizer, setup.form);
    const auto plan = std::get<plan::Plan>(plan::make_plan(graphs, setup.plan));
    return compile::compile(graphs, plan, target);
  }

  const program::Bundle& bundle() const { return bundle_; }
  const program::Program& train_program() const { return bundle_.at("train"); }
  run::Executor& executor() { return *executor_; }
  run::CpuBackend& backend() { return *cpu_; }

  /// Initial weights; random gains and biases too when `roughen`, so that no gradient is special.
  void init(bool roughen, std::uint64_t seed = 1) {
    op::StepBlock block;
    block.seed = seed;
    executor_->run("init", block);
    if (!roughen) return;
    for (const program::Buffer& buffer : train_program().buffers) {
      if (buffer.role != program::BufferRole::parameter) continue;
      const Random random(seed, random_stream("test.rough." + buffer.name));
      auto values = doubles(buffer);
      const double scale = buffer.name.ends_with(".weight") ? 10 : 1;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = values[i] * scale + 0.3 * random.normal(i, 0);
      set_doubles(buffer, values);
    }
  }

  op::ResultBlock step(run::Feeder& feeder, std::int64_t step = 0, double lr = 1e-2,
                       std::uint64_t seed = 1) {
    return executor_->run("train", block(step, lr, seed), &feeder);
  }
  op::ResultBlock evaluate(run::Feeder& feeder) {
    return executor_->run("evaluate", block(0, 0, 1), &feeder);
  }
  static op::StepBlock block(std::int64_t step, double lr, std::uint64_t seed) {
    op::StepBlock b;
    b.step = step;
    b.lr = lr;
    b.seed = seed;
    return b;
  }

  const program::Buffer& buffer(std::string_view name) const {
    const auto id = train_program().find_buffer(name);
    require(id.has_value(), "the train program has this buffer: " + std::string(name));
    return train_program().buffer(*id);
  }
  std::vector<const program::Buffer*> parameters() const {
    std::vector<const program::Buffer*> list;
    for (const program::Buffer& b : train_program().buffers)
      if (b.role == program::BufferRole::parameter) list.push_back(&b);
    return list;
  }

  /// A float tensor's values as doubles, and back.
  std::vector<double> doubles(const program::Buffer& b) {
    const auto bytes = executor_->read(b);
    std::vector<double> values(bytes.size() / static_cast<std::size_t>(size_bytes(b.dtype)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = b.dtype == DType::f64
                      ? reinterpret_cast<const double*>(bytes.data())[i]
                      : static_cast<double>(reinterpret_cast<const float*>(bytes.data())[i]);
    return values;
  }
  std::vector<double> doubles(std::string_view name) { return doubles(buffer(name)); }
  void set_doubles(const program::Buffer& b, std::span<const double> values) {
    const auto bytes = executor_->bytes(b);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (b.dtype == DType::f64)
        reinterpret_cast<double*>(bytes.data())[i] = values[i];
      else
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(values[i]);
  }

  /// Every byte of parameters and optimizer state.
  std::vector<std::byte> state() {
    std::vector<std::byte> all;
    for (const program::Buffer& b : train_program().buffers) {
      const bool counts = b.role == program::BufferRole::parameter ||
                          b.role == program::BufferRole::moment ||
                          b.role == program::BufferRole::counter;
      if (!counts) continue;
      const auto bytes = executor_->read(b);
      all.insert(all.end(), bytes.data(), bytes.data() + bytes.size());
    }
    return all;
  }

 private:
  RunSetup setup_;
  program::Bundle bundle_;
  std::unique_ptr<run::Backend> backend_;
  run::CpuBackend* cpu_ = nullptr;
  std::unique_ptr<run::Executor> executor_;
};

}  // namespace fourfold::test
