// The form of specifications: a job of one rank that reads back from its text, in which the
// verifier finds nothing.
#include "specification/specify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "graph/update.h"
#include "program/bind.h"
#include "program/text.h"
#include "unit/specification/specified_jobs.h"
#include "verify/verify_job.h"

namespace fourfold::specification {
namespace {

using test::SpecifiedJob;

void expect_sound(const program::Job& job) {
  for (const verify::Fault& fault : verify::verify(job))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  const program::Job read = program::parse_job(program::to_text(job), "specification");
  EXPECT_TRUE(read == job) << "as text and read back";
}

const program::Program& train_of(const program::Job& job) {
  return job.classes[0].at(op::ProgramKind::train);
}

TEST(Specification, is_sound_and_reads_back_in_either_type) {
  for (const SpecifiedJob& job : test::specified_jobs())
    for (const DType type : {DType::f64, DType::f32}) {
      SCOPED_TRACE(job.name);
      expect_sound(job.specification(type));
    }
}

TEST(Specification, is_sound_where_evaluations_read_averages) {
  for (const SpecifiedJob& job : test::specified_jobs()) {
    if (!job.setup.unet) continue;
    graph::ModelGraphs graphs = job.serial_graphs();
    graph::read_averages(graphs);
    const program::Job specified = specify(graphs);
    EXPECT_FALSE(specified == job.specification());
    expect_sound(specified);
  }
}

TEST(Specification, has_a_program_for_each_graph_and_an_instruction_for_each_node_and_input) {
  for (const SpecifiedJob& job : test::specified_jobs()) {
    const graph::ModelGraphs graphs = job.serial_graphs();
    const program::Job specified = specify(graphs);
    ASSERT_EQ(specified.ranks.size(), 1U);
    const program::Bundle& bundle = specified.classes.at(0);
    ASSERT_EQ(bundle.programs.size(), graphs.graphs.size());
    for (std::size_t i = 0; i < graphs.graphs.size(); ++i) {
      const program::Program& program = bundle.programs[i];
      EXPECT_EQ(program.kind, graphs.graphs[i].kind);
      EXPECT_EQ(program.streams, std::vector<std::string>{"math"});
      EXPECT_EQ(program.num_events, 0U);
      EXPECT_TRUE(program.groups.empty());
      EXPECT_EQ(program.instructions.size(), graphs.graphs[i].nodes.size() + program.inputs.size());
    }
  }
}

/// The bytes of all buffers of a region, as [begin, end).
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(Specification, gives_each_buffer_bytes_of_its_own) {
  for (const SpecifiedJob& job : test::specified_jobs()) {
    const program::Job specified = job.specification();
    for (const program::Program& program : specified.classes[0].programs)
      for (const program::Region region :
           {program::Region::persistent, program::Region::transient}) {
        Ranges ranges;
        for (const program::Buffer& buffer : program.buffers)
          if (buffer.region == region)
            ranges.emplace_back(buffer.offset_bytes, buffer.offset_bytes + buffer.space_bytes());
        std::ranges::sort(ranges);
        for (std::size_t i = 1; i < ranges.size(); ++i)
          EXPECT_GE(ranges[i].first, ranges[i - 1].second);
      }
  }
}

/// Attributes that say which share is here mean the whole: who computes them from the shardings
/// changes none.
TEST(Specification, is_what_binding_makes_of_it) {
  for (const SpecifiedJob& job : test::specified_jobs()) {
    const program::Job specified = job.specification();
    program::Bundle bound = specified.classes[0];
    program::bind(bound, Rank(0));
    EXPECT_TRUE(bound == specified.classes[0]) << job.name;
  }
}

TEST(Specification, trains_on_one_micro_batch_of_all_samples) {
  for (const SpecifiedJob& job : test::specified_jobs()) {
    const program::Job specified = job.specification();
    const std::int64_t samples = job.setup.plan.global_batch_size;
    EXPECT_EQ(train_of(specified).feeds,
              (program::Feeds{.micros = 1, .samples = samples, .count = samples}))
        << job.name;
    for (const program::Instruction& instruction : train_of(specified).instructions) {
      const auto* compute = std::get_if<program::Compute>(&instruction.what);
      if (compute == nullptr) continue;
      if (const auto window = op::samples_of(compute->op)) {
        EXPECT_EQ(*window, (op::SampleWindow{.samples = samples})) << job.name;
      }
    }
  }
}

TEST(Specification, adds_to_a_sum_from_its_second_producer_on) {
  const SpecifiedJob job = test::specified_jobs()[0];
  const program::Job specified = job.specification();
  const program::Program& train = train_of(specified);
  std::vector<bool> accumulates;
  for (const program::Instruction& instruction : train.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr ||
        train.buffer(compute->slices.back().buffer).name != "gradient/wte.weight")
      continue;
    accumulates.push_back(op::with_accumulate(compute->op, true) == compute->op);
  }
  EXPECT_EQ(accumulates, (std::vector<bool>{false, true})) << "the head, then the embedding";
}

TEST(Specification, has_no_type_that_rounds_and_one_shape_a_name) {
  const graph::ModelGraphs graphs = test::specified_jobs()[0].serial_graphs();
  EXPECT_THROW(specify(graphs, DType::bf16), InternalError);
  graph::ModelGraphs other = graphs;
  for (graph::Value& value : other.graphs.back().values)
    if (value.name == "wpe.weight") value.shape[0] += 1;
  EXPECT_THROW(specify(other), InternalError);
}

}  // namespace
}  // namespace fourfold::specification
