// The specification of a configuration is that of its batch and state, whatever its grid.
#include "job/specify.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>

#include "base/format.h"
#include "config/config.h"
#include "job/job.h"
#include "job/settle.h"
#include "program/text.h"
#include "verify/verify_job.h"

namespace fourfold::job {
namespace {

config::Settled settled(const std::string& config, const std::vector<std::string>& sets) {
  const std::array files{std::string(FOURFOLD_SOURCE_DIR) + "/configs/" + config};
  return settle(config::load(files, sets), {});
}

/// What persists, by name: shape and role.
using State = std::map<std::string, std::pair<Shape, program::BufferRole>>;
State state_of(const program::Job& job) {
  State state;
  for (const program::Bundle& bundle : job.classes)
    for (const program::Program& program : bundle.programs)
      for (const program::Buffer& buffer : program.buffers)
        if (buffer.region == program::Region::persistent &&
            buffer.role != program::BufferRole::rounded)
          state[buffer.name] = {buffer.global, buffer.role};
  return state;
}

std::int64_t nominal_count(const program::Job& job) {
  const program::Program& train = job.classes[0].at(op::ProgramKind::train);
  for (const program::Instruction& instruction : train.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (const auto* control = compute->op.get_if<op::UpdateControl>())
        return control->nominal_count;
  return 0;
}

/// Feeds of one program on all ranks: micro-batches and samples of one.
std::pair<std::int64_t, std::int64_t> fed(const program::Job& job, op::ProgramKind kind) {
  const program::Feeds& feeds = job.classes[0].at(kind).feeds;
  return {feeds.micros, feeds.samples};
}

void expect_specified(const std::string& config, const std::vector<std::string>& sets) {
  SCOPED_TRACE(config);
  const config::Settled run = settled(config, sets);
  const program::Job specified = specify(run);
  const std::vector<verify::Fault> faults = verify::verify(specified);
  EXPECT_TRUE(faults.empty()) << faults[0].message;
  const program::Job compiled = prepare(run, {.purpose = Purpose::look}).programs;
  EXPECT_EQ(state_of(specified), state_of(compiled));
  EXPECT_EQ(nominal_count(specified), nominal_count(compiled));
  const auto [micros, samples] = fed(compiled, op::ProgramKind::train);
  EXPECT_GT(micros, 1);
  EXPECT_EQ(fed(specified, op::ProgramKind::train), std::pair(std::int64_t{1}, micros * samples));
  for (const program::Program& program : compiled.classes[0].programs)
    if (program.kind != op::ProgramKind::train) {
      EXPECT_EQ(fed(specified, program.kind), fed(compiled, program.kind));
    }
}

const std::vector<std::string> quickstart = {"model.vocab_size=65", "model.dropout=0.1",
                                             "data.mask_documents=true",
                                             "train.global_batch_size=32", "model.bias=true"};

std::vector<std::string> with(std::vector<std::string> sets, const std::string& more) {
  sets.push_back(more);
  return sets;
}

TEST(SpecifiedRun, has_the_state_and_the_batch_of_the_compiled_one) {
  expect_specified("gpt-quickstart.yaml", with(quickstart, "train.micro_batch_size=2"));
  expect_specified("gpt-tiny.yaml",
                   {"precision.compute=bf16", "precision.residual=fp32", "model.tied_head=false",
                    "parallel.data=2", "train.micro_batch_size=2", "parallel.pipeline.stages=2"});
}

TEST(SpecifiedRun, trains_alike_on_all_grids) {
  const auto text_on = [](const std::string& grid, const std::string& micro) {
    const config::Settled run = settled(
        "gpt-quickstart.yaml",
        with(with(with(quickstart, grid), "parallel.data=1"), "train.micro_batch_size=" + micro));
    return program::to_text(specify(run).classes[0].at(op::ProgramKind::train));
  };
  const std::string alone = text_on("parallel.tensor={x: 1, y: 1, z: 1}", "8");
  EXPECT_EQ(text_on("parallel.tensor={x: 2, y: 2, z: 2}", "4"), alone);
  EXPECT_EQ(text_on("parallel.tensor={x: 1, y: 1, z: 4}", "1"), alone);
}

}  // namespace
}  // namespace fourfold::job
