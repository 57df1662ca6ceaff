// The list of passes: what each makes is sound and prints, and those that may be left out change no
// result of the verifier.
#include "compile/passes.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "compile/compile.h"
#include "kernels/fused_rows.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"
#include "verify/verify_job.h"

namespace fourfold::compile::passes_test {
namespace {

/// A target that has every fused row and wants every sum, update and cast at once.
machine::Target fusing_target() {
  machine::Target target = GridSetup::target();
  target.fusions = {"contract+add_bias&gelu", "contract+gelu_gradient&bias_gradient"};
  target.fusions.insert(target.fusions.end(), kernels::row_chains.begin(),
                        kernels::row_chains.end());
  target.fusions.insert(target.fusions.end(), {"contract+add_bias", "squared_norm", "adamw_list",
                                               "sgd_list", "moving_average_list", "cast_list"});
  return target;
}

std::vector<GridSetup> setups() {
  GridSetup cut;
  cut.gpt.dropout = 0.1;
  cut.writes = model::Writes::samples;
  cut.plan.shard_states = true;
  cut.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  cut.set_grid({.x = 2, .y = 2, .z = 2, .data = 2});
  GridSetup rounded;
  rounded.plan.compute = DType::bf16;
  rounded.plan.checkpointing.layers = 1;
  rounded.set_grid({.x = 2, .y = 1, .z = 2, .data = 1});
  return {cut, rounded};
}

program::Job compiled(const GridSetup& setup, const PassOptions& options) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), fusing_target(), options);
}

TEST(Passes, each_makes_what_the_verifier_finds_sound_and_what_prints) {
  std::set<std::string_view> seen;
  std::size_t verified = 0;
  for (const GridSetup& setup : setups()) {
    PassOptions options;
    options.observer = [&](const Pass& pass, const Form& form, const PassContext& context) {
      seen.insert(pass.name);
      EXPECT_NE(to_text(form, context.plan).find(op::to_string(kind_of(form))), std::string::npos)
          << pass.name;
      const auto* program = std::get_if<program::Program>(&form);
      if (program == nullptr) return;
      ++verified;
      for (const verify::Fault& fault : verify::verify(plainly_finished(*program, context.rank)))
        ADD_FAILURE() << "after " << pass.name << ": " << fault.rule << ": " << fault.message;
    };
    compiled(setup, options);
  }
  EXPECT_EQ(seen.size(), passes().size());
  EXPECT_GE(verified, 80U);
}

TEST(Passes, a_fault_that_a_pass_leaves_is_seen_after_it) {
  std::string found;
  PassOptions options;
  options.observer = [&](const Pass& pass, const Form& form, const PassContext& context) {
    if (pass.name != "lower" || kind_of(form) != op::ProgramKind::train) return;
    program::Program broken = std::get<program::Program>(form);
    for (program::Instruction& instruction : broken.instructions)
      if (auto* reduce = std::get_if<program::AllReduce>(&instruction.what)) {
        reduce->reduction = op::Reduction::max;
        break;
      }
    for (const verify::Fault& fault : verify::verify(plainly_finished(broken, context.rank)))
      found += fault.rule + " ";
  };
  compiled(setups()[0], options);
  EXPECT_NE(found.find("state"), std::string::npos) << found;
}

TEST(Passes, those_that_may_be_left_out_leave_sound_jobs_alone_and_together) {
  std::vector<std::vector<std::string>> choices;
  std::vector<std::string> all;
  for (const Pass& pass : passes())
    if (pass.is_optional) all.emplace_back(pass.name);
  for (const std::string& name : all) choices.push_back({name});
  choices.push_back(all);
  EXPECT_EQ(all.size(), 11U);
  for (const GridSetup& setup : setups()) {
    const std::size_t usual =
        compiled(setup, {}).classes[0].at(op::ProgramKind::train).instructions.size();
    for (const auto& without : choices) {
      const program::Job job = compiled(setup, {without, {}});
      for (const verify::Fault& fault : verify::verify(job))
        ADD_FAILURE() << without[0] << ": " << fault.rule << ": " << fault.message;
      if (without.size() == all.size()) {
        EXPECT_GT(job.classes[0].at(op::ProgramKind::train).instructions.size(), usual);
      }
    }
  }
}

TEST(Passes, that_must_stay_are_refused) {
  EXPECT_THROW(compiled(setups()[1], {{"lower"}, {}}), InternalError);
  EXPECT_THROW(compiled(setups()[1], {{"make_it_fast"}, {}}), InternalError);
}

}  // namespace
}  // namespace fourfold::compile::passes_test
