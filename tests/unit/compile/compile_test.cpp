// What programs and bundles are when all passes are done.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/file.h"
#include "program/text.h"
#include "unit/compile/one_rank.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

TEST(Compile, every_program_of_the_bundle_passes_the_verifier) {
  for (const std::int64_t blocks : {0, 1, 2, 3})
    for (const bool tied : {true, false})
      for (const std::int64_t micro : {1, 2, 6}) {
        RunSetup setup;
        setup.plan.checkpointing.layers = blocks;
        setup.gpt.tied_head = tied;
        setup.plan.micro_batch_size = micro;
        for (const auto& fault : verify::verify(bundle_of(setup)))
          ADD_FAILURE() << "checkpointing " << blocks << ": " << fault.rule << ": "
                        << fault.message;
      }
}

TEST(Compile, the_bundle_round_trips_as_text) {
  const program::Bundle bundle = bundle_of({});
  const std::string text = program::to_text(bundle);
  EXPECT_EQ(program::parse_bundle(text, "text"), bundle);
}

TEST(Compile, a_gpt_of_one_layer_compiles_to_the_golden_programs) {
  RunSetup setup;
  setup.gpt.num_layers = 1;
  setup.plan.checkpointing.layers = 1;
  const std::string text = program::to_text(bundle_of(setup));
  const std::string path = FOURFOLD_SOURCE_DIR "/tests/unit/compile/golden/gpt-1-layer.txt";
  if (std::getenv("FOURFOLD_UPDATE_GOLDEN") != nullptr) write_file_atomic(path, text);
  EXPECT_EQ(text, read_file(path)) << "set FOURFOLD_UPDATE_GOLDEN=1 to accept the change";
}

TEST(Compile, later_micro_batches_print_as_the_earlier_ones) {
  RunSetup setup;
  setup.plan.global_batch_size = 12;
  const std::string text = program::to_text(bundle_of(setup).at(op::ProgramKind::train));
  EXPECT_NE(text.find("task backward(3) = backward(1)"), std::string::npos) << text;
}

TEST(Bundle, all_programs_share_one_persistent_region) {
  const program::Bundle bundle = bundle_of({});
  std::set<op::ProgramKind> kinds;
  for (const program::Program& program : bundle.programs) {
    kinds.insert(program.kind);
    EXPECT_EQ(program.persistent_bytes, bundle.persistent_bytes);
    EXPECT_LE(program.transient_bytes, bundle.transient_bytes);
    EXPECT_EQ(program.buffers[0].name, "step");
    EXPECT_EQ(program.buffers[1].name, "result");
  }
  using enum op::ProgramKind;
  EXPECT_EQ(kinds, (std::set{init, train, evaluate, prefill, decode, digest}));
}

}  // namespace
}  // namespace fourfold::compile
