// Contributions to sums in compiled programs of many kinds: one that is left out, made twice or
// added elsewhere is named by the verifier.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

#include "base/format.h"
#include "program/builder.h"
#include "program/text.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "verify/verify.h"

namespace fourfold {
namespace {

using program::Buffer;
using program::BufferRole;
using program::Compute;
using program::Program;
using program::Slice;
using test::GridRun;
using test::RunSetup;

/// Twenty-four jobs: grids, one to four micro-batches, recomputation, tied heads, biases, dropout,
/// documents, fused and plain rows, bf16, states and sequences cut.
std::vector<RunSetup> varied_jobs() {
  const std::vector<plan::Grid> grids = {
      {.x = 1, .y = 1, .z = 1, .data = 1}, {.x = 2, .y = 1, .z = 1, .data = 1},
      {.x = 1, .y = 2, .z = 1, .data = 2}, {.x = 1, .y = 1, .z = 2, .data = 2},
      {.x = 2, .y = 2, .z = 2, .data = 1}, {.x = 2, .y = 1, .z = 4, .data = 2}};
  std::vector<RunSetup> jobs;
  for (std::size_t i = 0; i < 24; ++i) {
    RunSetup setup = i % 2 == 0 ? test::first_model() : test::second_model();
    setup.gpt.bias = i % 5 != 3;
    setup.gpt.tied_head = i % 3 != 1;
    setup.gpt.dropout = i % 4 == 1 ? 0 : 0.1;
    setup.masks_documents = setup.restarts_positions = i % 7 == 2;
    setup.plan.checkpointing.layers = i % 4 == 2 ? 1 : 0;
    setup.plan.checkpointing.keeps_products = i % 8 == 2;
    setup.plan.shard_states = i % 6 == 3;
    setup.reference_kernels = i % 5 == 2 || i % 8 == 7;
    if (i % 8 == 7) setup.plan.compute = DType::bf16;
    test::set_grid(setup, grids[i % grids.size()], i % 11 == 5 ? 1 : i % 3 == 0 ? 4 : 2);
    jobs.push_back(setup);
  }
  return jobs;
}

/// True if a slice is of a gradient, or of what the result block is made from.
bool is_of_a_sum(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  return buffer.role == BufferRole::gradient || buffer.role == BufferRole::result_block ||
         buffer.name.starts_with("gradient/") || buffer.name.starts_with("result.");
}

/// A row that adds to a sum.
struct Contribution {
  std::size_t instruction = 0, operand = 0;  // the first output
};

/// Rows that make a term of a sum, by what they are and where it goes: "contract -> gradient".
std::map<std::string, std::vector<Contribution>> contributions(const Program& program) {
  std::map<std::string, std::vector<Contribution>> found;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* compute = std::get_if<Compute>(&program.instructions[i].what);
    if (compute == nullptr || !op::can_accumulate(compute->op)) continue;
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (operands[o].role != op::Role::read && is_of_a_sum(program, compute->slices[o])) {
        const Buffer& buffer = program.buffer(compute->slices[o].buffer);
        const bool adds = operands[o].role == op::Role::update;
        found[format("{} -> {}{}", op::name(compute->op), to_string(buffer.role),
                     adds ? ", added" : "")]
            .push_back({i, o});
        break;
      }
  }
  return found;
}

void drop(Program& program, const Contribution& at) {
  program::erase_instruction(program, at.instruction);
}

bool repeat(Program& program, const Contribution& at) {
  program::Instruction again = program.instructions[at.instruction];
  auto& compute = std::get<Compute>(again.what);
  compute.op = op::with_accumulate(compute.op, true);
  program::insert_instruction(program, at.instruction + 1, again);
  return true;
}

/// Adds it to another sum of the same size and type.
bool misdirect(Program& program, const Contribution& at, std::mt19937& random) {
  auto& compute = std::get<Compute>(program.instructions[at.instruction].what);
  Slice& to = compute.slices[at.operand];
  std::vector<Slice> others;
  for (const auto& [kind, list] : contributions(program))
    for (const Contribution& other : list) {
      const auto& there = std::get<Compute>(program.instructions[other.instruction].what);
      const Slice& slice = there.slices[other.operand];
      const bool in_block = program.buffer(to.buffer).role == BufferRole::result_block;
      if (!(slice == to) && slice.bytes() == to.bytes() &&
          program.buffer(slice.buffer).dtype == program.buffer(to.buffer).dtype &&
          (in_block || program.local_shape(slice.buffer) == program.local_shape(to.buffer)))
        others.push_back(slice);
    }
  if (others.empty()) return false;
  to = others[random() % others.size()];
  return true;
}

/// A fault that names an instruction, or says what is lacking.
bool is_named(const std::vector<verify::Fault>& faults) {
  return std::any_of(faults.begin(), faults.end(),
                     [](const verify::Fault& fault) { return fault.instruction.has_value(); });
}

TEST(Sums, a_contribution_that_is_dropped_doubled_or_misdirected_is_named) {
  std::mt19937 random(3);
  std::map<std::string, int> seeded, by_rule;
  for (const RunSetup& setup : varied_jobs()) {
    const GridRun grid(setup);
    const program::Bundle bundle = grid.bundle_of(random() % grid.num_ranks());
    const Program& sound = bundle.at(op::ProgramKind::train);
    ASSERT_TRUE(verify::verify(sound).empty()) << test::name_of(setup.plan);
    const auto seed = [&](std::string_view how, const std::string& kind, const Contribution& at,
                          const auto& change) {
      Program program = sound;
      if (!change(program)) return;
      const auto faults = verify::verify(program);
      EXPECT_TRUE(is_named(faults))
          << test::name_of(setup.plan) << ": " << how << ": " << kind << ": "
          << short_text(sound, sound.instructions[at.instruction]) << " of "
          << setup.plan.global_batch_size << " samples, tied " << setup.gpt.tied_head;
      ++seeded[format("{:<11} {}", how, kind)];
      const bool is_sum = std::any_of(faults.begin(), faults.end(),
                                      [](const auto& fault) { return fault.rule == "sum"; });
      ++by_rule[is_sum ? "sum" : faults.empty() ? "none" : faults[0].rule];
    };
    for (const auto& [kind, list] : contributions(sound)) {
      const Contribution at = list[random() % list.size()];
      seed("dropped", kind, at, [&](Program& program) { return drop(program, at), true; });
      seed("doubled", kind, at, [&](Program& program) { return repeat(program, at); });
      seed("misdirected", kind, at,
           [&](Program& program) { return misdirect(program, at, random); });
    }
  }
  int total = 0;
  for (const auto& [kind, count] : seeded) {
    std::printf("%4d %s\n", count, kind.c_str());
    total += count;
  }
  for (const auto& [rule, count] : by_rule) std::printf("%4d by rule %s\n", count, rule.c_str());
  EXPECT_GE(total, 500);
}

/// In every micro-batch alike: only the uses of the weight tell.
TEST(Sums, a_use_of_a_tied_table_without_its_contribution_is_named) {
  for (const std::int64_t accumulation : {1, 2, 4}) {
    RunSetup setup = test::first_model();
    test::set_grid(setup, {.x = 2, .y = 1, .z = 1, .data = 1}, accumulation);
    program::Bundle bundle = GridRun(setup).bundle_of(1);
    Program program = bundle.at(op::ProgramKind::train);
    ASSERT_TRUE(verify::verify(program).empty());
    for (std::int64_t micro = 0; micro < accumulation; ++micro)
      program::erase_instruction(program, program::find_instruction(program, "embedding_gradient"));
    bool found = false;
    std::string texts;
    for (const verify::Fault& fault : verify::verify(program)) {
      texts += fault.message + "\n";
      found = found || fault.message.find(
                           "the gradient of wte.weight has 1 contributions of "
                           "micro-batch 0, but 2 of its forward pass use") != std::string::npos;
    }
    EXPECT_TRUE(found) << texts;
  }
}

}  // namespace
}  // namespace fourfold
