// Times of checkpoints of the state of a GPT of 124M parameters with AdamW in float32, 1.5 GB: how
// long steps wait for a save, what its writer takes, and how fast a load is beside a plain copy.
//
//   checkpoint_bench FOLDER [ROUNDS]
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/hash.h"
#include "checkpoint/restore.h"
#include "checkpoint/save.h"
#include "checkpoint/values.h"

namespace {

using namespace fourfold;
namespace fs = std::filesystem;

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The least of several rounds: other work on the machine only adds.
class Least {
 public:
  void add(double value) { value_ = has_any_ ? std::min(value_, value) : value, has_any_ = true; }
  double value() const { return value_; }

 private:
  double value_ = 0;
  bool has_any_ = false;
};

void add(program::Program& program, const std::string& name, Shape shape, DType dtype,
         program::BufferRole role) {
  program::Buffer buffer;
  buffer.name = name;
  buffer.dtype = dtype;
  buffer.sharding.mesh = MeshId(0);
  buffer.sharding.dims.resize(shape.rank());
  buffer.global = std::move(shape);
  buffer.role = role;
  buffer.region = program::Region::persistent;
  program.buffers.push_back(buffer);
}

/// The buffers of a training step that a checkpoint holds: GPT-2's smallest.
program::Program state_of_gpt() {
  constexpr std::int64_t layers = 12, hidden = 768, vocabulary = 50257, positions = 1024;
  program::Program program;
  program.rank = Rank(0);
  program.meshes = {Mesh{"all", {{"data", 1}}, {Rank(0)}}};
  std::vector<std::pair<std::string, Shape>> parameters{{"wte", {vocabulary, hidden}},
                                                        {"wpe", {positions, hidden}},
                                                        {"norm.weight", {hidden}},
                                                        {"norm.bias", {hidden}}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto block = [&](const char* name, Shape shape) {
      parameters.emplace_back(format("blocks.{}.{}", layer, name), std::move(shape));
    };
    block("qkv.weight", {hidden, 3 * hidden});
    block("qkv.bias", {3 * hidden});
    block("out.weight", {hidden, hidden});
    block("out.bias", {hidden});
    block("up.weight", {hidden, 4 * hidden});
    block("up.bias", {4 * hidden});
    block("down.weight", {4 * hidden, hidden});
    block("down.bias", {hidden});
    for (const char* name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"})
      block(name, {hidden});
  }
  using program::BufferRole;
  for (const auto& [name, shape] : parameters) {
    add(program, name, shape, DType::f32, BufferRole::parameter);
    add(program, name + ".m", shape, DType::f32, BufferRole::moment);
    add(program, name + ".v", shape, DType::f32, BufferRole::moment);
  }
  add(program, "updates", {}, DType::i64, BufferRole::counter);
  return program;
}

class Bench {
 public:
  Bench(std::string folder, int rounds)
      : program_(state_of_gpt()), rounds_(rounds), folder_(std::move(folder)) {
    for (const program::Buffer& buffer : program_.buffers) {
      auto& bytes = memory_[buffer.name];
      bytes.resize(static_cast<std::size_t>(buffer.global.elements() * size_bytes(buffer.dtype)));
      for (std::size_t i = 0; i < bytes.size(); i += 8) bytes[i] = static_cast<std::byte>(i >> 3);
    }
    bytes_ = checkpoint::owned_bytes(program_);
    store_.prepare();
  }

  void save() {
    checkpoint::Saver saver(store_);
    saver.reserve(program_);
    Least stall, stall_cpu, writer_cpu, total;
    for (int round = 0; round < rounds_; ++round) {
      memory_.at("updates")[0] = static_cast<std::byte>(step_ + 1);
      checkpoint::Manifest facts;
      facts.step = ++step_;
      const double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
      saver.start(facts, program_, bytes_of());
      stall.add(seconds(CLOCK_MONOTONIC) - begin);
      stall_cpu.add(seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
      const double own = seconds(CLOCK_THREAD_CPUTIME_ID);
      const double copied = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
      const auto result = saver.finish();
      require(result.error.empty(), result.error);
      total.add(seconds(CLOCK_MONOTONIC) - begin);
      writer_cpu.add(seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu - copied -
                     (seconds(CLOCK_THREAD_CPUTIME_ID) - own));
      store_.prune({.keep_last = 2});
    }
    std::printf(
        "save      %.3f GB: steps wait %.3f s (%.3f s of CPU), writer %.2f s of CPU, done after "
        "%.2f s\n",
        gigabytes(), stall.value(), stall_cpu.value(), writer_cpu.value(), total.value());
  }

  /// What a resume does, beside reading the same file from the page cache, and parts of it.
  void load() {
    const checkpoint::Found found = *store_.newest().found;
    const std::string file = format("{}/{}", found.path, found.manifest.files[0].name);
    Time copy, load, digest, hash;
    std::uint64_t sum = 0;
    for (int round = 0; round < rounds_; ++round) {
      copy.of([&] {
        const auto reader = real_files().open(file);
        std::int64_t at = 0;
        for (auto& [name, bytes] : memory_) {
          reader->read(at, bytes);
          at += static_cast<std::int64_t>(bytes.size());
        }
      });
      load.of([&] {
        const auto loaded = checkpoint::load_state(real_files(), found, program_, bytes_of());
        checkpoint::check_digests(found, loaded, nullptr);
      });
      digest.of([&] {
        for (const auto& [name, bytes] : memory_)
          sum += checkpoint::digest_of_values(DType::f32, {}, 0, bytes);
      });
      hash.of([&] {
        for (const auto& [name, bytes] : memory_) sum += hash64(bytes);
      });
    }
    print("copy", copy, copy);
    print("load", load, copy);
    print("digests", digest, copy);
    print("XXH3", hash, copy);
    if (sum == 0) std::printf("\n");  // it is used
  }

 private:
  /// All is on one thread: on a busy machine its own seconds say more than those of the clock.
  struct Time {
    Least cpu, clock;
    void of(const auto& what) {
      const double cpu_begin = seconds(CLOCK_THREAD_CPUTIME_ID), begin = seconds(CLOCK_MONOTONIC);
      what();
      cpu.add(seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
      clock.add(seconds(CLOCK_MONOTONIC) - begin);
    }
  };

  void print(const char* what, const Time& time, const Time& copy) const {
    std::printf(
        "%-9s %.3f s of CPU, %5.2f GB/s, %3.0f%% of a copy from the page cache; by the clock %.3f "
        "s, %3.0f%%\n",
        what, time.cpu.value(), gigabytes() / time.cpu.value(),
        100 * copy.cpu.value() / time.cpu.value(), time.clock.value(),
        100 * copy.clock.value() / time.clock.value());
  }
  double gigabytes() const { return 1e-9 * static_cast<double>(bytes_); }
  checkpoint::BufferBytes bytes_of() {
    return [this](const program::Buffer& b) { return std::span(memory_.at(b.name)); };
  }

  program::Program program_;
  int rounds_;
  std::string folder_;
  std::map<std::string, std::vector<std::byte>> memory_;
  std::int64_t bytes_ = 0, step_ = 0;
  checkpoint::Store store_{real_files(), folder_ + "/checkpoints"};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: checkpoint_bench FOLDER [ROUNDS]\n");
    return 2;
  }
  const std::string folder = format("{}/checkpoint-bench-{}", argv[1], getpid());
  fs::create_directories(folder);
  try {
    Bench bench(folder, argc > 2 ? std::atoi(argv[2]) : 5);
    bench.save();
    bench.load();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    fs::remove_all(folder);
    return 1;
  }
  fs::remove_all(folder);
  return 0;
}
