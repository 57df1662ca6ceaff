// Checkpoints and models that go between the CPU and a GPU.
#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "checkpoint/load_model.h"
#include "checkpoint/model_files.h"
#include "checkpoint/save.h"
#include "checkpoint/save_model.h"
#include "support/gpu.h"
#include "support/simulated_disk.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold::test {
namespace {

RunSetup small_gpt() {
  RunSetup setup;
  setup.reference_kernels = true;
  return setup;
}

void train(SmallRun& run, std::int64_t first, std::int64_t last,
           const RunSetup& setup = small_gpt()) {
  for (std::int64_t step = first; step < last; ++step) {
    auto feeder = random_batch(setup, static_cast<std::uint64_t>(step));
    EXPECT_EQ(run.step(feeder, step).applied, 1);
  }
}

checkpoint::BufferReads reads(SmallRun& run) {
  return [&run](const program::Buffer& buffer) { return run.executor().read(buffer); };
}
checkpoint::BufferBytes writes(SmallRun& run) {
  return [&run](const program::Buffer& buffer) { return run.executor().bytes(buffer); };
}

void save(SimulatedDisk& disk, SmallRun& run, std::int64_t step) {
  checkpoint::Store store(disk, "/ckpt", 0);
  store.prepare();
  checkpoint::Saver saver(store);
  checkpoint::Manifest facts;
  facts.step = step;
  facts.version = "test";
  facts.config = "model: {}\n";
  saver.start(facts, run.train_program(), reads(run));
  EXPECT_EQ(saver.finish().error, "");
}
void load(SimulatedDisk& disk, SmallRun& run) {
  const checkpoint::Store store(disk, "/ckpt", 0);
  checkpoint::load_state(disk, store.newest().found.value(), run.train_program(), writes(run));
}

class CheckpointsOnGpu : public OnGpu {};

TEST_P(CheckpointsOnGpu, go_from_the_cpu_to_a_gpu_and_back_bit_by_bit) {
  SmallRun cpu(small_gpt()), cuda = run(small_gpt()), cpu_again(small_gpt());
  cpu.init(true);
  train(cpu, 0, 2);
  SimulatedDisk first;
  save(first, cpu, 2);
  load(first, cuda);
  EXPECT_EQ(cuda.state(), cpu.state());
  train(cuda, 2, 4);
  EXPECT_NE(cuda.state(), cpu.state());
  SimulatedDisk second;
  save(second, cuda, 4);
  load(second, cpu_again);
  EXPECT_EQ(cpu_again.state(), cuda.state());
  train(cpu_again, 4, 5);
}

TEST_P(CheckpointsOnGpu, a_run_that_goes_on_has_the_bits_of_one_that_was_never_stopped) {
  RunSetup in_bf16 = for_cudnn(small_gpt());
  in_bf16.plan.compute = DType::bf16;
  for (const RunSetup& setup : {small_gpt(), in_bf16}) {
    SmallRun whole = run(setup), begun = run(setup), resumed = run(setup);
    for (SmallRun* run : {&whole, &begun}) {
      run->init(false);
      train(*run, 0, 3, setup);
    }
    SimulatedDisk disk;
    save(disk, begun, 3);
    load(disk, resumed);
    train(whole, 3, 6, setup);
    train(resumed, 3, 6, setup);
    EXPECT_EQ(resumed.state(), whole.state()) << to_string(setup.plan.compute);
  }
}

TEST_P(CheckpointsOnGpu, the_file_of_a_model_is_that_of_the_cpu) {
  SmallRun cpu(small_gpt()), cuda = run(small_gpt());
  const TemporaryFolder folder;
  cpu.init(true);
  const std::string file = folder.file("model.safetensors");
  checkpoint::save_model(folder.path(), cpu.train_program(), reads(cpu));
  const std::string of_cpu = read_bytes(file);
  checkpoint::load_model(*checkpoint::open_model(file), cuda.train_program(), writes(cuda));
  checkpoint::save_model(folder.path(), cuda.train_program(), reads(cuda));
  EXPECT_EQ(read_bytes(file), of_cpu);
}

INSTANTIATE_TEST_SUITE_P(By, CheckpointsOnGpu, testing::ValuesIn(gpu_kernels()), kernels_name);

}  // namespace
}  // namespace fourfold::test
