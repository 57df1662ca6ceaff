#include "verify/run_whole_job.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>

#include "base/format.h"
#include "comm/monitor.h"
#include "comm/threads.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "support/compare.h"
#include "support/grid_run.h"

namespace fourfold::test {
namespace {

/// As many samples as any program asks for, each a function of its place.
class AnyFeeder final : public run::Feeder {
 public:
  explicit AnyFeeder(const RunSetup& setup) : setup_(setup), batch_(random_batch(setup)) {}

  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override {
    if (!writes_text_) return batch_.feed(input, samples, into);
    std::vector<std::int32_t> tokens(into.size() / sizeof(std::int32_t));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] =
          static_cast<std::int32_t>((7 * i + 3) % static_cast<std::size_t>(setup_.gpt.vocab_size));
    std::memcpy(into.data(), tokens.data(), into.size());
  }
  void set_writes_text(bool writes_text) { writes_text_ = writes_text; }

 private:
  const RunSetup& setup_;
  FixedFeeder batch_;
  bool writes_text_ = false;
};

/// Doubles of any buffer; of integers those of their low and high halves.
std::vector<double> doubles_of_any(std::span<const std::byte> bytes, DType dtype) {
  if (dtype == DType::f64 || dtype == DType::f32) return GridRun::doubles_of(bytes, dtype);
  std::vector<double> values;
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, size);
    values.push_back(static_cast<double>(word & 0xffffffffU));
    if (size == sizeof word) values.push_back(static_cast<double>(word >> 32));
  }
  return values;
}

class RankOfJob {
 public:
  RankOfJob(const RunSetup& setup, const program::Bundle& bundle, comm::World& world)
      : bundle_(bundle),
        backend_(options_of(setup, world)),
        executor_(bundle, backend_),
        feeder_(setup),
        rank_(world.rank().index()) {}

  void run() {
    const auto has = [&](op::ProgramKind kind) { return bundle_.find(kind) != nullptr; };
    run_one(op::ProgramKind::init, {}, "init");
    const auto digest = [&](const std::string& when) {
      if (has(op::ProgramKind::digest)) run_one(op::ProgramKind::digest, {}, when);
    };
    digest("digest");
    roughen();
    digest("digest of rough state");
    constexpr std::int64_t first_step = 3;
    for (std::int64_t step = first_step; step < first_step + 3; ++step)
      run_one(op::ProgramKind::train, block(step, 1e-2), format("step {}", step));
    constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
    run_one(op::ProgramKind::train, block(first_step + 3, no_number), "step not applied");
    for (const op::ProgramKind kind : {op::ProgramKind::evaluate, op::ProgramKind::bound}) {
      if (!has(kind)) continue;
      op::StepBlock one = block(first_step, 0);
      one.index = 1;
      run_one(kind, one, std::string(op::to_string(kind)));
    }
    write_text();
    if (has(op::ProgramKind::denoise))
      for (const std::int32_t index : {2, 1, 0}) {
        op::StepBlock one = block(0, 0);
        one.index = index;
        run_one(op::ProgramKind::denoise, one, format("denoise {}", index));
      }
    plant_infinities();
    run_one(op::ProgramKind::train, block(first_step + 4, 1e-2), "step of infinite moments");
    run_one(op::ProgramKind::train, block(first_step + 5, 1e-2), "step after it");
  }

  std::map<std::string, std::vector<double>> numbers;

 private:
  static run::CpuOptions options_of(const RunSetup& setup, comm::World& world) {
    run::CpuOptions options = setup.cpu;
    options.threads = 1;
    options.world = &world;
    return options;
  }
  op::StepBlock block(std::int64_t step, double lr) const {
    op::StepBlock block;
    block.step = step;
    block.lr = lr;
    block.seed = 5;
    const auto rank = static_cast<std::int64_t>(rank_);
    block.vote = op::Votes{rank % 3 == 1, 1 + rank, 0, rank == 0}.packed();
    return block;
  }

  void write_text() {
    if (bundle_.find(op::ProgramKind::prefill) == nullptr) return;
    feeder_.set_writes_text(true);
    op::StepBlock one = block(0, 0);
    one.index = 1;
    run_one(op::ProgramKind::prefill, one, "prefill");
    one.index = 0;
    one.position = 1;
    run_one(op::ProgramKind::decode, one, "decode");
    feeder_.set_writes_text(false);
  }

  /// Runs a program and keeps its result, its outputs and all persistent state.
  void run_one(op::ProgramKind kind, const op::StepBlock& block, const std::string& when) {
    const op::ResultBlock result = executor_.run(kind, block, &feeder_);
    const auto fields = std::as_bytes(std::span(&result, 1));
    for (const op::BlockField& field : op::result_fields)
      numbers[format("rank {}: {}: {}", rank_, when, field.name)] =
          doubles_of_any(fields.subspan(field.offset_bytes, sizeof(double)), field.dtype);
    for (const program::Buffer& buffer : bundle_.at(kind).buffers) {
      const bool is_kept = program::is_learned(buffer.role) ||
                           buffer.role == program::BufferRole::counter ||
                           buffer.role == program::BufferRole::output;
      if (!is_kept) continue;
      const auto bytes = executor_.read(buffer);
      numbers[format("rank {}: {}: {}", rank_, when, buffer.name)] =
          doubles_of_any({bytes.data(), bytes.size()}, buffer.dtype);
    }
  }

  /// Weights, moments and averages that make nothing special; each element depends on its place in
  /// the whole tensor alone.
  void roughen() {
    for (const program::Buffer& buffer : train().buffers) {
      if (!program::is_learned(buffer.role)) continue;
      const bool is_table = buffer.role == program::BufferRole::average &&
                            program::averaged_name(buffer.name).empty();
      if (is_table) continue;
      const Random random(1, random_stream("test.rough." + buffer.name));
      const bool is_second = buffer.name.starts_with("v/");
      const double size = buffer.role == program::BufferRole::moment ? 0.02 : 0.2;
      change(buffer, [&](double& value, std::size_t global) {
        const double normal = random.normal(global, 0);
        // The root of what is divided by stays away from 0.
        value = is_second ? 0.01 + 0.001 * normal * normal : value + size * normal;
      });
    }
  }

  /// The first element of each moment, wherever it is kept.
  void plant_infinities() {
    for (const program::Buffer& buffer : train().buffers)
      if (buffer.role == program::BufferRole::moment)
        change(buffer, [](double& value, std::size_t global) {
          if (global == 0) value = std::numeric_limits<double>::infinity();
        });
  }

  /// Calls edit(value, global) for each element of a tensor, with its place in the whole one.
  template <class Edit>
  void change(const program::Buffer& buffer, Edit&& edit) {
    if (buffer.dtype != DType::f64 && buffer.dtype != DType::f32) return;
    const auto bytes = executor_.bytes(buffer);
    std::vector<double> local = GridRun::doubles_of(bytes, buffer.dtype);
    const Mesh& mesh = train().meshes[buffer.sharding.mesh.index()];
    for_each_element(buffer, mesh, program::coordinates_of(mesh, Rank(rank_)),
                     [&](std::size_t i, std::size_t global) { edit(local.at(i), global); });
    for (std::size_t i = 0; i < local.size(); ++i) {
      if (buffer.dtype == DType::f64)
        reinterpret_cast<double*>(bytes.data())[i] = local[i];
      else
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(local[i]);
    }
  }
  const program::Program& train() const { return bundle_.at(op::ProgramKind::train); }

  const program::Bundle& bundle_;
  run::CpuBackend backend_;
  run::Executor executor_;
  AnyFeeder feeder_;
  std::size_t rank_;
};

/// The parameter that a tensor of state belongs to, for leaving out the bias of keys.
std::string parameter_of(std::string_view key) {
  const std::string_view name = key.substr(key.rfind(": ") + 2);
  return std::string(name);
}

}  // namespace

WholeRun run_whole_job(const RunSetup& setup, const program::Job& job) {
  WholeRun run;
  std::mutex mutex;
  comm::ThreadJob threads(job.ranks.size());
  comm::MonitorOptions options;
  options.watchdog_s = 20;
  options.say = [](std::string_view) {};
  const comm::ThreadMonitor monitor(threads, options);
  try {
    threads.run([&](comm::World& world) {
      const program::Bundle bundle = program::bundle_of(job, world.rank());
      RankOfJob rank(setup, bundle, world);
      rank.run();
      const std::lock_guard lock(mutex);
      run.numbers.merge(rank.numbers);
    });
  } catch (const std::exception& error) {
    run.fault = error.what();
  }
  return run;
}

std::string difference(const WholeRun& got, const WholeRun& wanted, double tolerance) {
  if (got.fault != wanted.fault) return "the run ends with: " + got.fault;
  for (const auto& [key, numbers] : wanted.numbers) {
    const auto found = got.numbers.find(key);
    if (found == got.numbers.end()) return key + " is not there";
    if (found->second.size() != numbers.size()) return key + " has another size";
    const KeyBias keys = key_bias(parameter_of(key), numbers.size());
    const std::vector<double> a = without(found->second, keys), b = without(numbers, keys);
    double error = 0;
    bool is_same_kind = true;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a[i]) != std::isfinite(b[i])) is_same_kind = false;
      if (std::isfinite(a[i]) && std::isfinite(b[i])) error = std::hypot(error, a[i] - b[i]);
    }
    std::vector<double> finite = b;
    std::erase_if(finite, [](double value) { return !std::isfinite(value); });
    const double size = norm(finite);
    if (!is_same_kind || error > tolerance * std::max(size, 1e-8))
      return format("{} differs by {:.1e} of {:.1e}", key, error, size);
  }
  if (got.numbers.size() != wanted.numbers.size()) return "more numbers are left";
  return {};
}

}  // namespace fourfold::test
