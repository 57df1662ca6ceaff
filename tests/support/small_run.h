// A GPT compiled and bound for tests, with direct access to its tensors. Header only.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/model.h"
#include "plan/plan.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "support/all_cut_forms.h"
#include "support/job_setup.h"

namespace fourfold::test {

struct RunSetup : JobSetup {
  /// Above 0: all ops in their cut forms, norms in so many chunks.
  std::int64_t chunks = 0;
  bool reference_kernels = false;
  bool fusion = true;
  /// Changes what the program is compiled for.
  std::function<void(machine::Target&)> edit_target = {};
  run::CpuOptions cpu{.threads = 2};
  /// What each rank of a grid runs on; empty: the CPU.
  std::function<std::unique_ptr<run::Backend>(comm::World&)> backend = {};
  /// Which tokens of the batch, counted over all samples, have no label besides every seventh.
  std::function<bool(std::int64_t)> masked;

  RunSetup() {
    gpt = {.num_layers = 2,
           .num_attention_heads = 2,
           .hidden_size = 8,
           .ffn_hidden_size = 32,
           .max_position_embeddings = 6,
           .vocab_size = 11};
    plan = {.global_batch_size = 4, .micro_batch_size = 2, .seq_length = 6};
    writes = model::Writes::samples;
  }
  const std::vector<std::int64_t>& picture() const { return unet ? unet->picture : vgg->picture; }
  std::int64_t num_classes() const { return unet ? unet->num_classes : vgg->num_classes; }
};

/// Feeds a fixed batch, the same in every step; document starts where they are asked for.
class FixedFeeder : public run::Feeder {
 public:
  FixedFeeder(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& labels,
              const std::vector<std::int32_t>& document_starts = {}) {
    add<std::int32_t>("tokens", tokens);
    add<std::int32_t>("labels", labels);
    add<std::int32_t>("document_starts", document_starts);
  }
  FixedFeeder(const std::vector<std::uint8_t>& pictures, const std::vector<std::int32_t>& labels) {
    add<std::uint8_t>("pictures", pictures);
    add<std::int32_t>("labels", labels);
  }

  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override {
    const std::vector<std::byte>& batch = batch_.at(input.name);
    const auto first = static_cast<std::size_t>(samples.first * input.sample_bytes());
    require(first + into.size() <= batch.size(), "the fixed batch has every sample that is fed");
    std::memcpy(into.data(), batch.data() + first, into.size());
  }

 private:
  template <class T>
  void add(const std::string& input, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    batch_[input] = {bytes.begin(), bytes.end()};
  }

  std::map<std::string, std::vector<std::byte>> batch_;  // by input
};

/// Noise, and labels of which every seventh is missing.
inline FixedFeeder random_pictures(const RunSetup& setup, std::uint64_t seed) {
  const Random random(seed, random_stream("test.batch"));
  const std::int64_t size = Shape(setup.picture()).elements();
  std::vector<std::uint8_t> pictures;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < setup.plan.global_batch_size; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    for (std::int64_t at = 0; at < size; ++at)
      pictures.push_back(static_cast<std::uint8_t>(
          random.below(256, static_cast<std::uint64_t>(i * size + at), 0)));
    const bool masked = i % 7 == 3 || (setup.masked && setup.masked(i));
    const auto classes = static_cast<std::uint64_t>(setup.num_classes());
    labels.push_back(masked ? -1 : static_cast<std::int32_t>(random.below(classes, element, 1)));
  }
  return {pictures, labels};
}

/// Random tokens, labels of which every seventh is missing, and documents of random lengths; or
/// pictures.
inline FixedFeeder random_batch(const RunSetup& setup, std::uint64_t seed = 7) {
  if (setup.is_of_pictures()) return random_pictures(setup, seed);
  const Random random(seed, random_stream("test.batch"));
  std::vector<std::int32_t> tokens, labels, starts;
  const std::int64_t count = setup.plan.global_batch_size * setup.plan.seq_length;
  const auto vocab = static_cast<std::uint64_t>(model::data_facts(setup.model()).num_labels);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    tokens.push_back(static_cast<std::int32_t>(random.below(vocab, element, 0)));
    const bool masked = i % 7 == 3 || (setup.masked && setup.masked(i));
    labels.push_back(masked ? -1 : static_cast<std::int32_t>(random.below(vocab, element, 1)));
    const auto t = static_cast<std::int32_t>(i % setup.plan.seq_length);
    const bool begins = t == 0 || random.below(3, element, 2) == 0;
    starts.push_back(begins ? t : starts.back());
  }
  return {tokens, labels, starts};
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
    graph::ModelGraphs graphs = setup.graphs();
    for (graph::Graph& graph : graphs.graphs)
      if (setup.chunks > 0) graph = in_cut_forms(graph, setup.chunks);
    return compile::compile(graphs, setup.solved(graphs), target).classes[0];
  }

  const program::Bundle& bundle() const { return bundle_; }
  const program::Program& train_program() const { return bundle_.at(op::ProgramKind::train); }
  run::Executor& executor() { return *executor_; }
  run::CpuBackend& backend() { return *cpu_; }

  /// Initial weights; random gains and biases too when `roughen`, so that no gradient is special.
  void init(bool roughen, std::uint64_t seed = 1) {
    op::StepBlock block;
    block.seed = seed;
    executor_->run(op::ProgramKind::init, block);
    if (!roughen) return;
    for (const program::Buffer& buffer : train_program().buffers) {
      if (buffer.role != program::BufferRole::parameter) continue;
      const Random random(seed, random_stream("test.rough." + buffer.name));
      auto values = doubles(buffer);
      // A GPT begins with small weights; those of other models keep the size of activations as they
      // are.
      const bool is_small = buffer.name.ends_with(".weight") && !setup_.is_of_pictures();
      const double scale = is_small ? 10 : 1;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = values[i] * scale + 0.3 * random.normal(i, 0);
      set_doubles(buffer, values);
    }
  }

  op::ResultBlock step(run::Feeder& feeder, std::int64_t step = 0, double lr = 1e-2,
                       std::uint64_t seed = 1) {
    return executor_->run(op::ProgramKind::train, block(step, lr, seed), &feeder);
  }
  op::ResultBlock evaluate(run::Feeder& feeder) {
    return executor_->run(op::ProgramKind::evaluate, block(0, 0, 1), &feeder);
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
