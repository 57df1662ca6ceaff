// The way back through norms over groups of channels in two instructions, and the way there in two:
// what joins, what is computed again, and that it stays what the verifier finds sound.
#include "compile/fuse_norms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/norm_chains.h"
#include "program/text.h"
#include "unit/compile/program_edits.h"
#include "verify/verify.h"
#include "verify/verify_job.h"

namespace fourfold::compile::fuse_norms_test {
namespace {

using program::Compute;
using program::Program;

machine::Target fusing_target() {
  machine::Target target =
      target_that_fuses({kernels::norm_chains.begin(), kernels::norm_chains.end()});
  target.fusions.emplace_back("group_norm_sums");
  target.repeated = {kernels::repeated_norm_rows.begin(), kernels::repeated_norm_rows.end()};
  target.repeated_for = {kernels::readers_of_repeated_norms.begin(),
                         kernels::readers_of_repeated_norms.end()};
  return target;
}

GridSetup setup_of(const plan::Grid& grid, double dropout = 0.1, bool scale_shift = true) {
  GridSetup setup = small_unet(grid);
  setup.unet->dropout = dropout;
  setup.unet->scale_shift_norm = scale_shift;
  return setup;
}

program::Job job_of(const GridSetup& setup, const machine::Target& target) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), target);
}
Program step_of(const GridSetup& setup, const machine::Target& target) {
  return job_of(setup, target).classes[0].at(op::ProgramKind::train);
}

std::vector<Compute> computes_named(const Program& program, std::string_view part) {
  std::vector<Compute> list;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what);
        compute != nullptr && op::name(compute->op).find(part) != std::string_view::npos)
      list.push_back(*compute);
  return list;
}

/// Calls visit(chain, shapes) for all chains of a program.
template <class Visit>
void for_each_chain(const Program& program, const Visit& visit) {
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what); compute != nullptr)
      if (const auto* chain = compute->op.get_if<op::Fused>())
        visit(*chain, program.operand_shapes(*compute));
}

TEST(FuseNorms, every_row_of_a_norm_is_in_a_chain_that_kernels_know) {
  for (const bool scale_shift : {true, false})
    for (const double dropout : {0.1, 0.0}) {
      const Program before = step_of(setup_of({}, dropout, scale_shift), GridSetup::target()),
                    after = step_of(setup_of({}, dropout, scale_shift), fusing_target());
      std::size_t statistics = 0, forward = 0, sums = 0, gradients = 0, dropped = 0, modulated = 0,
                  with_bias = 0, stored = 0, repeated = 0;
      for_each_chain(after, [&](const op::Fused& chain, const std::vector<Shape>& shapes) {
        if (kernels::norm_statistics(chain, shapes)) {
          ++statistics;
        } else if (const auto there = kernels::norm_and_silu(chain)) {
          ++forward;
          dropped += there->dropout ? 1 : 0;
        } else if (const auto back = kernels::norm_sums_of_gradient(chain)) {
          ++sums;
          dropped += back->dropout ? 1 : 0;
          modulated += back->modulation ? 1 : 0;
          stored += back->silu && back->silu->y_grad ? 1 : 0;
        } else if (const auto of_x = kernels::norm_gradient_of_x(chain, shapes)) {
          ++gradients;
          with_bias += of_x->biases.empty() ? 0 : 1;
          repeated += of_x->silu_bias ? 1 : 0;
        } else if (!kernels::bias_and_sum(chain, shapes)) {
          ADD_FAILURE() << "no kernel does all of " << chain.chain_name();
        }
      });
      constexpr std::size_t micros = 3, blocks = 8;
      const std::size_t parts = computes_named(before, "group_norm_sums").size(),
                        with_silu = computes_named(before, "silu_gradient").size() - 2 * micros;
      EXPECT_EQ(statistics, computes_named(before, "group_norm_statistics").size() -
                                computes_named(before, "group_norm_statistics_gradient").size());
      EXPECT_EQ(forward + 2 * micros, computes_named(before, "silu").size() -
                                          computes_named(before, "silu_gradient").size())
          << "all but two of times";
      EXPECT_EQ(sums, parts);
      EXPECT_EQ(gradients, parts);
      EXPECT_GT(with_bias, parts / 2);
      EXPECT_EQ(dropped, dropout > 0 ? 2 * blocks * micros : 0);
      EXPECT_EQ(modulated, scale_shift ? blocks * micros : 0);
      // A gradient of y is stored where dropout or a modulation is before it.
      EXPECT_EQ(stored, dropout > 0 || scale_shift ? blocks * micros : 0);
      EXPECT_EQ(stored + repeated, with_silu);
      for (const std::string_view alone :
           {"silu_gradient", "group_norm_weight_gradient", "group_norm_moments_gradient",
            "group_norm_apply_gradient", "scale_shift_gradient"})
        for (const Compute& compute : computes_named(after, alone))
          EXPECT_TRUE(compute.op.is<op::Fused>() || alone == "silu_gradient") << alone;
    }
}

TEST(FuseNorms, what_a_norm_gives_is_not_kept_where_the_way_back_computes_it_again) {
  const auto kept = [](const Program& program, std::string_view ending) {
    return std::ranges::count_if(program.buffers, [&](const program::Buffer& buffer) {
      return buffer.name.ends_with(ending);
    });
  };
  const Program before = step_of(setup_of({}), GridSetup::target()),
                after = step_of(setup_of({}), fusing_target());
  EXPECT_GT(kept(before, ".modulated"), 0);
  EXPECT_EQ(kept(after, ".modulated"), 0);
  EXPECT_GT(kept(before, ".norm2.y"), 0);
  EXPECT_EQ(kept(after, ".norm2.y"), 0);
  EXPECT_EQ(kept(after, "attention.norm.y"), kept(before, "attention.norm.y"))
      << "the gradient of a weight reads it";
  EXPECT_LT(after.transient_bytes, before.transient_bytes);
}

TEST(FuseNorms, the_verifier_finds_no_fault_on_any_grid_and_programs_read_back) {
  for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 2, .y = 1, .z = 1, .data = 1},
                                 plan::Grid{.x = 1, .y = 2, .z = 2, .data = 1},
                                 plan::Grid{.x = 2, .y = 2, .z = 1, .data = 2}}) {
    SCOPED_TRACE(text_of(grid));
    GridSetup setup = setup_of(grid);
    setup.plan.compute = DType::bf16;
    const program::Job job = job_of(setup, fusing_target());
    EXPECT_GT(computes_named(job.classes[0].at(op::ProgramKind::train), "&group_norm_sums").size(),
              5U);
    for (const verify::Fault& fault : verify::verify(job))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
    EXPECT_EQ(program::parse_bundle(program::to_text(job.classes[0]), "norms"), job.classes[0]);
  }
}

TEST(FuseNorms, a_value_between_pieces_must_not_be_read_by_others) {
  program::Bundle bundle = job_of(setup_of({}), fusing_target()).classes[0];
  for (program::Program& program : bundle.programs) {
    if (program.kind != op::ProgramKind::train) continue;
    for (program::Instruction& instruction : program.instructions) {
      auto* compute = std::get_if<Compute>(&instruction.what);
      const auto* chain = compute == nullptr ? nullptr : compute->op.get_if<op::Fused>();
      if (chain == nullptr || chain->between() == 0) continue;
      // A later instruction reads what lies there; nobody has written it since.
      const program::Slice between = compute->slices.back();
      const auto at = static_cast<std::size_t>(&instruction - program.instructions.data());
      const Compute reader{op::Add{}, compute->dtype, {between, between, between}, {}, "test"};
      insert(program, at + 1, reader);
      break;
    }
  }
  const std::vector<verify::Fault> faults = verify::verify(bundle);
  EXPECT_TRUE(std::ranges::any_of(faults, [](const verify::Fault& fault) {
    return fault.rule == "defined" &&
           fault.message.find("hold the scratch of a kernel") != std::string::npos;
  }));
}

TEST(FuseNorms, is_left_out_where_the_target_does_not_ask_for_it) {
  const Program program = step_of(setup_of({}), GridSetup::target());
  EXPECT_EQ(fuse_norms(program, GridSetup::target()), program);
}

}  // namespace
}  // namespace fourfold::compile::fuse_norms_test
