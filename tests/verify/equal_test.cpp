// Jobs compute the function of their specification, and those that do not are told from it.
#include "verify/equal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "op/blocks.h"
#include "verify/equal_jobs.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

using op::ProgramKind;

Program& program_of(Job& job, std::size_t number, ProgramKind kind = ProgramKind::train) {
  for (Program& program : job.classes[number].programs)
    if (program.kind == kind) return program;
  throw std::logic_error("the job has such a program");
}

/// The first instruction of that name with such a slice among those that it touches.
std::size_t find_touching(const Program& program, std::string_view name, std::string_view buffer,
                          std::int64_t offset_bytes = 0) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (!program::name(program.instructions[i]).starts_with(name)) continue;
    for (const Access& access : accesses(program.instructions[i]))
      if (program.buffer(access.slice.buffer).name == buffer &&
          access.slice.offset_bytes == offset_bytes)
        return i;
  }
  throw std::logic_error("the program has such an instruction");
}
std::size_t find_field(const Program& program, std::string_view name, std::string_view field) {
  return find_touching(program, name, "result",
                       static_cast<std::int64_t>(op::find_block_field(field)->offset_bytes));
}

/// Puts what changes nothing in the place of an instruction.
void leave_out(Program& program, std::size_t instruction) {
  program.instructions[instruction].what = Record{EventId(program.num_events++)};
}

/// The row of this type in an instruction, whole or a piece of a chain.
template <class Row>
Row& row_in(Program& program, std::size_t instruction) {
  op::Op& op = std::get<Compute>(program.instructions[instruction].what).op;
  if (auto* row = op.get_if<Row>()) return *row;
  Row* found = nullptr;
  op::Fused::for_each_piece(op.get<op::Fused>(), [&](op::Op& piece, const auto&) {
    if (auto* row = piece.get_if<Row>()) found = row;
  });
  return *found;
}

std::vector<Fault> differences(const Job& job, const EqualJob& of) {
  return compare(job, of.specification()).faults;
}

/// The first difference is of this tensor, and this instruction of that rank is to blame.
void expect_blamed(const std::vector<Fault>& faults, std::string_view text, std::size_t rank,
                   std::size_t instruction) {
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front().rule, "equal");
  EXPECT_NE(faults.front().message.find(text), std::string::npos) << all(faults);
  EXPECT_EQ(faults.front().instruction, instruction) << all(faults);
  EXPECT_NE(faults.front().message.find(format("the first to differ: rank {}: ", rank)),
            std::string::npos)
      << all(faults);
}

class EqualJobs : public testing::TestWithParam<EqualJob> {};

TEST_P(EqualJobs, a_job_computes_the_function_of_its_specification) {
  const Equal equal = compare(GetParam().job(), GetParam().specification());
  EXPECT_EQ(all(equal.faults), "");
  EXPECT_TRUE(equal.notes.empty()) << equal.notes.front();
  EXPECT_GE(equal.programs.size(), 4U);
  EXPECT_GT(equal.elements, 0);
  EXPECT_GE(equal.bits, 50);
}

INSTANTIATE_TEST_SUITE_P(Layouts, EqualJobs, testing::ValuesIn(equal_jobs()), [](const auto& of) {
  std::string name = of.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST(Equal, keys_do_not_matter) {
  const EqualJob of = gpt_on("gpt", {.data = 2});
  for (const std::uint64_t seed : {2U, 3U, 4U})
    EXPECT_EQ(all(compare(of.job(), of.specification(), {.seed = seed}).faults), "");
}

TEST(Equal, a_bias_in_the_place_of_another_is_told_with_the_row_that_adds_it) {
  const EqualJob of = gpt_on("gpt", {.data = 2});
  Job job = of.job();
  Program& train = program_of(job, 0);
  const std::size_t index = find_touching(train, "add_bias", "blocks.0.attn.out.bias");
  for_each_slice(train.instructions[index], [&](Slice& slice) {
    if (train.buffer(slice.buffer).name == "blocks.0.attn.out.bias")
      slice.buffer = *train.find_buffer("blocks.1.attn.out.bias");
  });
  const std::vector<Fault> faults = differences(job, of);
  expect_blamed(faults, "rank 0: train, step 1: wte.weight [0, 0]", 0, index);
  EXPECT_NE(all(faults).find("rank 0: train, step 1: blocks.0.attn.out.bias [0] is not what"),
            std::string::npos)
      << all(faults);
  EXPECT_EQ(all(faults).find("step 2"), std::string::npos) << "the first step is told alone";
}

TEST(Equal, positions_that_turn_keys_the_other_way_are_told_with_their_row) {
  const EqualJob of = llama_on("llama", {.x = 2}, 2);
  Job job = of.job();
  Program& train = program_of(job, 0);
  const std::size_t index = find_touching(train, "rotary", "blocks.1.attn.turned");
  row_in<op::Rotary>(train, index).negative = true;
  expect_blamed(differences(job, of), "rank 0: train, step 1: ", 0, index);
}

TEST(Equal, an_attribute_that_says_what_is_computed_is_told_with_its_row) {
  const EqualJob of = gpt_on("gpt", {.x = 2});
  Job job = of.job();
  Program& train = program_of(job, 0);
  const std::size_t index = find_touching(train, "attention", "step");
  row_in<op::Attention>(train, index).rate = 0.2;
  expect_blamed(differences(job, of), "rank 0: train, step 1: ", 0, index);
}

TEST(Equal, gradients_that_are_not_summed_up_over_ranks_are_told) {
  const EqualJob of = gpt_on("gpt", {.data = 2});
  Job job = of.job();
  Program& train = program_of(job, 0);
  const std::size_t index = find_touching(train, "all_reduce", "gradient/ln_f.gain");
  leave_out(train, index);
  const std::vector<Fault> faults = differences(job, of);
  ASSERT_FALSE(faults.empty());
  EXPECT_NE(faults.front().message.find("the first to differ"), std::string::npos) << all(faults);
}

TEST(Equal, one_rank_that_updates_with_another_rate_is_told_as_that_rank) {
  const EqualJob of = pipelined_gpt();
  Job job = of.job();
  const std::uint32_t last = job.ranks.back().of_class;
  ASSERT_EQ(std::ranges::count(job.ranks, last, &program::Binding::of_class), 1);
  Program& train = program_of(job, last);
  const std::size_t index = find_touching(train, "adamw", "blocks.1.ln2.gain");
  row_in<op::AdamW>(train, index).beta2 = 0.9;
  const std::vector<Fault> faults = differences(job, of);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front().rank, Rank(job.ranks.size() - 1)) << all(faults);
  EXPECT_EQ(faults.front().instruction, index) << all(faults);
}

TEST(Equal, votes_that_a_rank_does_not_hear_are_told) {
  const EqualJob of = gpt_on("gpt", {.data = 2});
  Job job = of.job();
  Program& train = program_of(job, 0);
  leave_out(train, find_field(train, "all_reduce", "result.votes"));
  const std::vector<Fault> faults = differences(job, of);
  EXPECT_NE(all(faults).find("result.votes is not that of the specification"), std::string::npos)
      << all(faults);
}

/// The job with another field in the place of one that an instruction of the update reads.
Job with_other_field(const EqualJob& of, std::string_view row, std::string_view field,
                     std::string_view other) {
  Job job = of.job();
  Program& train = program_of(job, 0);
  const auto offset = [](std::string_view name) {
    return static_cast<std::int64_t>(op::find_block_field(name)->offset_bytes);
  };
  const auto block = [&](std::string_view name) {
    return *train.find_buffer(name.substr(0, name.find('.')));
  };
  const std::size_t index =
      find_touching(train, row, train.buffer(block(field)).name, offset(field));
  for_each_slice(train.instructions[index], [&](Slice& slice) {
    if (slice.buffer != block(field) || slice.offset_bytes != offset(field)) return;
    slice.buffer = block(other);
    slice.offset_bytes = offset(other);
  });
  return job;
}

TEST(Equal, each_reason_not_to_update_is_tried) {
  const EqualJob of = gpt_on("gpt", {.data = 2});
  const auto told = [&](std::string_view row, std::string_view field, std::string_view other) {
    return all(differences(with_other_field(of, row, field, other), of));
  };
  const auto expect_told = [](const std::string& text, std::string_view in) {
    EXPECT_NE(text.find(in), std::string::npos) << text;
  };
  expect_told(told("update_control", "result.votes", "step.vote"),
              "train, after updates that were not finite in places: ");
  expect_told(told("vote", "result.valid_count", "step.step"), "train, without labels: ");
  expect_told(told("vote", "step.lr", "result.squared_norm"),
              "train, with a learning rate that is not finite: ");
  expect_told(told("vote", "result.loss_sum", "result.squared_norm"),
              "with a number that is not finite in what ");
  expect_told(told("vote", "result.squared_norm", "result.loss_sum"),
              "with a number that is not finite in what ");
}

TEST(Equal, elements_that_are_not_finite_are_counted_on_all_ranks) {
  EqualJob of = gpt_on("gpt", {.data = 2});
  of.setup.plan.shard_states = true;
  Job job = of.job();
  Program& train = program_of(job, 0);
  leave_out(train, find_touching(train, "all_reduce", "result.non_finite/part"));
  const std::vector<Fault> faults = differences(job, of);
  EXPECT_NE(all(faults).find("from moments that are not finite in places"), std::string::npos)
      << all(faults);
}

TEST(Equal, a_rounded_copy_that_is_not_written_is_told) {
  const EqualJob of = rounded_gpt();
  Job job = of.job();
  Program& train = program_of(job, 0);
  const auto copy = train.find_buffer("blocks.0.mlp.up.weight/rounded");
  ASSERT_TRUE(copy.has_value());
  const std::size_t index = find_touching(train, "adamw", "blocks.0.mlp.up.weight/rounded");
  // It writes the copy of another weight of this shape instead.
  for_each_slice(train.instructions[index], [&](Slice& slice) {
    if (slice.buffer == *copy) slice.buffer = *train.find_buffer("blocks.1.mlp.up.weight/rounded");
  });
  EXPECT_NE(all(differences(job, of)).find("blocks.0.mlp.up.weight/rounded [0, 0]"),
            std::string::npos);
}

TEST(Equal, the_other_programs_are_compared_too) {
  const EqualJob of = gpt_on("gpt", {.x = 2});
  const auto told = [&](ProgramKind kind, std::string_view row, std::string_view buffer,
                        std::string_view other) {
    Job job = of.job();
    Program& program = program_of(job, 0, kind);
    const std::size_t index = find_touching(program, row, buffer);
    for_each_slice(program.instructions[index], [&](Slice& slice) {
      if (program.buffer(slice.buffer).name == buffer) slice.buffer = *program.find_buffer(other);
    });
    const std::vector<Fault> faults = differences(job, of);
    EXPECT_NE(all(faults).find(op::to_string(kind)), std::string::npos) << op::to_string(kind);
  };
  told(ProgramKind::init, "init_normal", "wpe.weight", "m/wpe.weight");
  told(ProgramKind::evaluate, "layer_norm", "ln_f.gain", "ln_f.bias");
  told(ProgramKind::prefill, "layer_norm", "ln_f.gain", "ln_f.bias");
  told(ProgramKind::decode, "layer_norm", "ln_f.gain", "ln_f.bias");
  told(ProgramKind::digest, "digest", "ln_f.gain", "ln_f.bias");
}

TEST(Equal, samples_of_another_micro_batch_are_told_though_each_has_all_tokens) {
  EqualJob of = gpt_on("gpt", {.data = 2});
  of.setup.gpt.vocab_size = 16;  // as many as a micro-batch has tokens
  Job job = of.job();
  Program& train = program_of(job, 0);
  for (Instruction& instruction : train.instructions)
    if (auto* feed = std::get_if<Feed>(&instruction.what)) feed->micro = 0;
  EXPECT_FALSE(differences(job, of).empty());
}

TEST(Equal, the_place_of_the_last_token_is_told_from_the_position_of_the_first) {
  EqualJob of = gpt_on("gpt of two tokens", {.x = 2});
  of.setup.plan.seq_length = of.setup.gpt.max_position_embeddings = 2;
  EXPECT_EQ(all(differences(of.job(), of)), "");
  Job job = of.job();
  Program& prefill = program_of(job, 0, ProgramKind::prefill);
  const std::size_t index =
      find_touching(prefill, "take_position", "step",
                    static_cast<std::int64_t>(op::find_block_field("step.index")->offset_bytes));
  std::get<Compute>(prefill.instructions[index].what).slices[1].offset_bytes =
      static_cast<std::int64_t>(op::find_block_field("step.position")->offset_bytes);
  EXPECT_FALSE(differences(job, of).empty());
}

TEST(Equal, a_result_that_a_rank_does_not_tell_its_host_is_told) {
  const EqualJob of = pipelined_gpt();
  Job job = of.job();
  Program& evaluate = program_of(job, 0, ProgramKind::evaluate);
  const std::size_t index = find_field(evaluate, "recv", "result.loss_sum");
  std::get<Recv>(evaluate.instructions[index].what).to.offset_bytes =
      static_cast<std::int64_t>(op::find_block_field("result.squared_norm")->offset_bytes);
  const std::vector<Fault> faults = differences(job, of);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front().message, "rank 0: evaluate: it does not tell result.loss_sum");
}

TEST(Equal, ranks_that_wait_for_ever_are_one_line) {
  const EqualJob of = gpt_on("gpt", {.x = 2});
  Job job = of.job();
  Program& train = program_of(job, 0);
  const auto record = std::ranges::find_if(train.instructions, [](const Instruction& instruction) {
    return std::holds_alternative<Record>(instruction.what);
  });
  leave_out(train, static_cast<std::size_t>(record - train.instructions.begin()));
  const std::vector<Fault> faults = differences(job, of);
  ASSERT_EQ(faults.size(), 1U) << all(faults);
  EXPECT_NE(faults[0].message.find("waits for ever"), std::string::npos) << all(faults);
}

TEST(Equal, the_specification_of_another_model_is_one_line) {
  const EqualJob of = gpt_on("gpt", {.x = 2});
  EqualJob other = of;
  other.setup.gpt.vocab_size = 38;
  const std::vector<Fault> faults = differences(of.job(), other);
  ASSERT_EQ(faults.size(), 1U) << all(faults);
  EXPECT_TRUE(faults[0].message.starts_with("the specification is of another run: "))
      << all(faults);
  EXPECT_NE(faults[0].message.find("f64 [38, 32] there, and f64 [37, 32] on rank 0"),
            std::string::npos)
      << all(faults);

  EqualJob deeper = of;
  deeper.setup.gpt.num_layers = 3;
  EXPECT_EQ(differences(of.job(), deeper).size(), 1U);
  EXPECT_EQ(differences(deeper.job(), of).size(), 1U);
  EqualJob larger = of;
  larger.setup.plan.global_batch_size = 16;
  EXPECT_NE(all(differences(of.job(), larger)).find("train has 16 samples there and 8 here"),
            std::string::npos);
  const Job two_ranks = of.job();
  EXPECT_EQ(all(compare(two_ranks, two_ranks).faults),
            "equal: a specification has one rank, and this one has 2\n");
}

TEST(Equal, programs_that_one_job_lacks_are_noted) {
  EqualJob of = gpt_on("gpt", {.x = 2});
  const Job specification = of.specification();
  of.setup.writes = model::Writes::nothing;
  Job job = of.job();
  // Without the cache of keys and values, which the specification would have.
  Job without = of.specification();
  Bundle& bundle = without.classes[0];
  std::erase_if(bundle.programs,
                [](const Program& program) { return program.kind == ProgramKind::evaluate; });
  const Equal equal = compare(job, without);
  EXPECT_EQ(all(equal.faults), "");
  ASSERT_EQ(equal.notes.size(), 1U);
  EXPECT_EQ(equal.notes[0], "evaluate: not compared, as the specification has no such program");
}

TEST(Equal, what_it_takes_is_counted_before) {
  const EqualJob small = gpt_on("gpt", {}), of = gpt_on("gpt", {.data = 2});
  const EqualCost one = cost_of_equal(small.job(), small.specification()),
                  two = cost_of_equal(of.job(), of.specification());
  EXPECT_GT(one.operations, 1'000'000);
  EXPECT_LT(two.operations, 2 * one.operations);
  EXPECT_GT(two.bytes, one.bytes);
  try {
    compare(of.job(), of.specification(), {.memory_bytes = two.bytes - 1});
    ADD_FAILURE() << "more memory than there is";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  EXPECT_EQ(all(compare(of.job(), of.specification(), {.memory_bytes = two.bytes}).faults), "");
}

}  // namespace
}  // namespace fourfold::verify
