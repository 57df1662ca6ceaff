// What the user pins: how it is written, whom it is for, what follows from it, and why it may not
// be.
#include "plan/pins.h"

#include <gtest/gtest.h>

#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

const char* const up = "blocks.0.mlp.up.weight";

Pin pin(const std::string& pattern, const std::string& sharding) {
  return {pattern, parse_pinned(sharding).value()};
}

GptSetup pinned(const std::vector<Pin>& pins) {
  GptSetup setup;
  setup.spec.pins = pins;
  return setup;
}

/// How a parameter lies at rest, and as ops see it.
std::string rest_of(const GptSetup& setup, const std::string& name) {
  const graph::ModelGraphs model = setup.graphs();
  const Plan plan = setup.plan();
  const graph::Graph& train = model.at("train");
  for (std::size_t i = 0; i < train.values.size(); ++i)
    if (train.values[i].name == name)
      return op::to_string(train.values[i].shape, plan.of("train").values[i], plan.meshes[0]);
  return "none";
}

std::string refusal(const GptSetup& setup) {
  const auto plan = make_plan(setup.graphs(), setup.spec);
  const auto* infeasible = std::get_if<Infeasible>(&plan);
  return infeasible == nullptr ? "a plan" : test::in_words(*infeasible);
}

TEST(Pins, a_pin_is_written_as_programs_print_shardings) {
  const std::string text = "[64 (y,z), *, * (x)]";
  const auto dims = parse_pinned(text);
  ASSERT_TRUE(dims);
  EXPECT_EQ(*dims, (std::vector<PinnedDim>{{64, {"y", "z"}}, {{}, {}}, {{}, {"x"}}}));
  EXPECT_EQ(to_string(*dims), text);
  EXPECT_EQ(parse_pinned(" [ 64 (y, z) ,*,* (x) ] "), dims);
  for (const char* wrong : {"", "64 (y)", "[64 (y]", "[0]", "[64 (w)]", "[64 (x), 32 (x)]",
                            "[64 (data)]", "[6a]", "[64 ()]", "[]", "[64 (y:4)]"})
    EXPECT_FALSE(parse_pinned(wrong)) << wrong;
}

TEST(Pins, a_star_is_any_run_of_letters) {
  EXPECT_TRUE(matches("blocks.*.mlp.up.weight", "blocks.11.mlp.up.weight"));
  EXPECT_TRUE(matches("*", "wte.weight"));
  EXPECT_TRUE(matches("*.weight", "blocks.0.attn.out.weight"));
  EXPECT_TRUE(matches("*a*b", "xabab"));
  EXPECT_TRUE(matches("wte.weight*", "wte.weight"));
  EXPECT_FALSE(matches("blocks.*.mlp.up.weight", "blocks.1.mlp.up.bias"));
  EXPECT_FALSE(matches("weight", "wte.weight"));
  EXPECT_FALSE(matches("", "wte.weight"));
}

TEST(Pins, every_parameter_of_the_pattern_lies_as_it_says_and_no_other) {
  const GptSetup plain, setup = pinned({pin("blocks.*.mlp.up.weight", "[32 (x,z), 128 (y)]")});
  EXPECT_EQ(rest_of(plain, up), "[32 (y,z), 128 (x)]");
  EXPECT_EQ(rest_of(setup, up), "[32 (x,z), 128 (y)]");
  EXPECT_EQ(rest_of(setup, "blocks.1.mlp.up.weight"), "[32 (x,z), 128 (y)]");
  EXPECT_EQ(rest_of(setup, "blocks.0.attn.qkv.weight"), rest_of(plain, "blocks.0.attn.qkv.weight"));
}

TEST(Pins, what_meets_a_pinned_weight_follows_it) {
  // Channels that leave the first product on y make the next one contract y.
  const GptSetup setup = pinned({pin("blocks.*.mlp.up.weight", "[* (x,z), * (y)]")});
  EXPECT_EQ(rest_of(setup, "blocks.0.mlp.down.weight"), "[128 (y,z), 32 (x)]");
  EXPECT_EQ(rest_of(GptSetup(), "blocks.0.mlp.down.weight"), "[128 (x,z), 32 (y)]");
}

TEST(Pins, a_weight_that_no_axis_cuts_is_whole_at_rest_and_in_use) {
  const GptSetup setup = pinned({pin(up, "[32, 128]")});
  EXPECT_EQ(rest_of(setup, up), "[32, 128]");
  EXPECT_EQ(rest_of(setup, "blocks.1.mlp.up.weight"), "[32 (y,z), 128 (x)]");
}

TEST(Pins, small_parameters_may_be_cut_at_rest) {
  const GptSetup setup = pinned({pin("blocks.*.mlp.up.bias", "[128 (x)]")});
  EXPECT_EQ(rest_of(setup, "blocks.0.mlp.up.bias"), "[128 (x)]");
}

TEST(Pins, a_pin_of_no_parameter_is_refused_with_the_name_that_is_meant) {
  EXPECT_EQ(refusal(pinned({pin("blocks.0.mlp.upp.weight", "[*, *]")})),
            "parallel.pin blocks.0.mlp.upp.weight: no parameter has such a name; did you mean "
            "blocks.0.mlp.up.weight?");
  const std::string other = refusal(pinned({pin("layers.*.kernel", "[*, *]")}));
  EXPECT_NE(other.find("there are wte.weight, wpe.weight, "), std::string::npos) << other;
}

TEST(Pins, dims_that_the_parameter_does_not_have_are_refused_with_its_own) {
  EXPECT_EQ(refusal(pinned({pin(up, "[32 (y), 128, 3]")})),
            "parallel.pin blocks.0.mlp.up.weight: [32 (y), 128, 3] is not of the dims 32 x 128 of "
            "blocks.0.mlp.up.weight; write a size or '*' for each of them");
  EXPECT_NE(refusal(pinned({pin(up, "[32, 127]")})).find("is not of the dims 32 x 128"),
            std::string::npos);
}

TEST(Pins, axes_that_do_not_divide_a_dim_are_refused_with_degrees_that_do) {
  GptSetup setup = pinned({pin("blocks.*.attn.qkv.weight", "[*, 3 (x), *, *]")});
  EXPECT_EQ(refusal(setup),
            "parallel.pin blocks.*.attn.qkv.weight: [*, 3 (x), *, *] cuts 3 of "
            "blocks.0.attn.qkv.weight among 2 ranks, which do not divide it; degrees that do: 1, "
            "3");
}

TEST(Pins, two_pins_of_one_parameter_agree_or_are_refused) {
  EXPECT_EQ(refusal(pinned({pin("blocks.*.mlp.up.weight", "[* (x), *]"), pin(up, "[*, * (x)]")})),
            "parallel.pin blocks.0.mlp.up.weight: [*, * (x)] says otherwise of "
            "blocks.0.mlp.up.weight than blocks.*.mlp.up.weight; narrow one of the two patterns");
  EXPECT_EQ(refusal(pinned({pin("blocks.*.mlp.up.weight", "[* (x), *]"), pin(up, "[* (x), *]")})),
            "a plan");
}

}  // namespace
}  // namespace fourfold::plan
