// Programs of many grids: every one passes the verifier, on the first rank and on others.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "model/gpt.h"
#include "program/bind.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

struct GptSetup {
  model::GptSpec gpt{.num_layers = 2,
                     .num_attention_heads = 8,
                     .hidden_size = 32,
                     .ffn_hidden_size = 64,
                     .max_position_embeddings = 8,
                     .vocab_size = 37,
                     .dropout = 0.1};
  plan::PlanSpec plan{.global_batch_size = 32, .micro_batch_size = 1, .seq_length = 8};

  program::Bundle bundle() const {
    const auto batching = std::get<plan::Batching>(plan::solve_batching(plan));
    const auto graphs =
        model::build(gpt, {batching.samples(), batching.length, batching.global_batch}, {});
    auto solved = plan::make_plan(graphs, plan);
    if (std::holds_alternative<plan::Infeasible>(solved)) {
      ADD_FAILURE() << "there is no plan";
      return {};
    }
    machine::Target target{
        "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
    target.workspace_bytes = [](const std::string&, const op::Op&, op::Shapes, DType) {
      return std::int64_t{0};
    };
    return compile(graphs, std::get<plan::Plan>(solved), target).classes[0];
  }
};

std::string name_of(const plan::Grid& g) {
  return "x" + std::to_string(g.x) + " y" + std::to_string(g.y) + " z" + std::to_string(g.z) +
         " data" + std::to_string(g.data);
}

void expect_sound(const GptSetup& setup) {
  const program::Bundle bundle = setup.bundle();
  const std::int64_t ranks = plan::num_ranks(setup.plan.grid);
  for (const std::int64_t rank : {std::int64_t{0}, ranks - 1}) {
    program::Bundle bound = bundle;
    program::bind(bound, Rank(static_cast<std::size_t>(rank)));
    std::size_t shown = 0;
    for (const auto& fault : verify::verify(bound))
      if (shown++ < 5)
        ADD_FAILURE() << name_of(setup.plan.grid) << " rank " << rank << ": " << fault.rule << ": "
                      << fault.message;
  }
}

TEST(Grids, every_grid_of_eight_ranks_passes_the_verifier) {
  for (const std::int64_t x : {1, 2, 4, 8})
    for (const std::int64_t y : {1, 2, 4, 8})
      for (const std::int64_t z : {1, 2, 4, 8}) {
        if (8 % (x * y * z) != 0 || x * y * z > 8) continue;
        for (const plan::Checkpointing checkpointing :
             {plan::Checkpointing{}, plan::Checkpointing{.layers = 1},
              plan::Checkpointing{.layers = 1, .keeps_products = true}}) {
          GptSetup setup;
          setup.plan.grid = {.x = x, .y = y, .z = z, .data = 8 / (x * y * z)};
          setup.plan.checkpointing = checkpointing;
          expect_sound(setup);
        }
      }
}

}  // namespace
}  // namespace fourfold::compile
