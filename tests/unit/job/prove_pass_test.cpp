#include "job/prove_pass.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/model.h"

namespace fourfold::job {
namespace {

program::Job compile_tiny(const compile::PassOptions& options) {
  const model::GptSpec gpt{.num_layers = 1,
                           .num_attention_heads = 2,
                           .hidden_size = 8,
                           .ffn_hidden_size = 16,
                           .max_position_embeddings = 4,
                           .vocab_size = 8};
  plan::PlanSpec spec{.global_batch_size = 4, .micro_batch_size = 1, .seq_length = 4};
  spec.grid = {.x = 2, .data = 1};
  const auto graphs = model::build(model::Spec(gpt), {1, 4, 4}, {});
  return compile::compile(graphs, std::get<plan::Plan>(plan::make_plan(graphs, spec)),
                          kernels::cpu::target(1), options);
}

TEST(ProvePass, finds_every_pass_of_a_sound_compiler_sound) {
  EXPECT_NO_THROW(compile_tiny({{}, prove}));
}

TEST(ProvePass, names_the_pass_after_which_a_program_is_wrong) {
  compile::PassOptions options;
  options.observer = [](const auto& pass, const auto& form, const auto& context) {
    const auto* program = std::get_if<program::Program>(&form);
    if (program == nullptr || pass.name != "fuse_sums") return;
    program::Program broken = *program;
    for (program::Instruction& instruction : broken.instructions)
      if (auto* reduce = std::get_if<program::AllReduce>(&instruction.what))
        reduce->reduction = op::Reduction::max;
    prove(pass, broken, context);
  };
  try {
    compile_tiny(options);
    FAIL() << "a wrong program goes through";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("after pass fuse_sums: state: "), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace fourfold::job
