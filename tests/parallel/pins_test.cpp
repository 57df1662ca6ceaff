// Whatever is pinned, the function that is computed is the same: a run with pinned parameters
// equals the serial one, and the verifier finds no fault in its programs.
#include <gtest/gtest.h>

#include "base/format.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold::pins_test {
namespace {

using test::GridRun;
using test::RunSetup;

struct Case {
  std::string pattern, sharding;
};

/// Kinds of parameters cut the other way, by fewer axes, by z alone, not at all. Every third one
/// each time; all with FOURFOLD_LONG.
const std::vector<Case> cases = {
    {"blocks.*.mlp.up.weight", "[* (x,z), * (y)]"},
    {"blocks.*.mlp.up.weight", "[*, * (x)]"},
    {"blocks.*.mlp.up.weight", "[* (z), *]"},
    {"blocks.*.mlp.up.weight", "[* (x,y), *]"},
    {"blocks.*.mlp.down.weight", "[*, *]"},
    {"blocks.*.mlp.down.weight", "[* (z), * (x,y)]"},
    {"blocks.*.attn.qkv.weight", "[* (x), *, * (y), *]"},
    {"blocks.*.attn.qkv.weight", "[*, *, *, * (x)]"},
    {"blocks.*.attn.out.weight", "[*, * (x), * (y)]"},
    {"blocks.*.attn.out.weight", "[* (y), *, * (x,z)]"},
    {"blocks.*.mlp.up.bias", "[* (x)]"},
    {"blocks.*.ln1.gain", "[* (z)]"},
    {"wte.weight", "[*, * (x)]"},
    {"wpe.weight", "[*, *]"},
};

void expect_same_function(RunSetup setup, const plan::Grid& grid) {
  RunSetup serial = setup;
  test::set_grid(serial, {});
  const test::Tensors weights = test::rough_weights(serial);
  const test::TrainingOutcome alone = test::run_job(serial, GridRun::compile_job(serial), weights);
  test::set_grid(setup, grid);
  test::Worst worst;
  std::size_t count = 0;
  for (const Case& one : cases) {
    if (count++ % 3 != 0 && !is_long_run()) continue;
    SCOPED_TRACE(one.pattern + ": " + one.sharding);
    RunSetup pinned = setup;
    pinned.plan.pins = {{one.pattern, plan::parse_pinned(one.sharding).value()}};
    try {
      const program::Job job = GridRun::compile_job(pinned);
      for (const verify::Fault& fault : verify::verify(job))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
      compare(test::run_job(pinned, job, weights), alone, 1e-12, worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  test::print(worst, "pins");
}

TEST(Pins, a_gpt_computes_the_same_with_any_parameter_pinned) {
  RunSetup setup = test::first_model();
  expect_same_function(setup, {.x = 2, .y = 2, .z = 2, .data = 1});
}

}  // namespace
}  // namespace fourfold::pins_test
