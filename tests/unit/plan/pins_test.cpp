// What the user pins: how it is written, whom it is for, what follows from it, and why it may not
// be.
#include "plan/pins.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "model/model.h"
#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

const char* const up = "blocks.0.mlp.up.weight";

Pin pin(const std::string& pattern, const std::string& sharding) {
  return {pattern, parse_pinned(sharding).value()};
}

GptSetup pinned(const std::vector<Pin>& pins) {
  GptSetup setup;
  setup.plan.pins = pins;
  return setup;
}

/// How a parameter lies at rest, and as ops see it.
std::string rest_of(const GptSetup& setup, const std::string& name) {
  const graph::ModelGraphs model = setup.graphs();
  const Plan plan = setup.planned();
  const graph::Graph& train = model.at(op::ProgramKind::train);
  for (std::size_t i = 0; i < train.values.size(); ++i)
    if (train.values[i].name == name)
      return op::to_string(train.values[i].shape, plan.of(op::ProgramKind::train).values[i],
                           plan.meshes[0]);
  return "none";
}

std::string refusal(const GptSetup& setup) {
  const auto plan = make_plan(setup.graphs(), setup.plan);
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
                            "[64 (data), 2 (data)]", "[6a]", "[64 ()]", "[]", "[64 (y:4)]"})
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
            "parallel.pin blocks.0.mlp.upp.weight: no parameter and no activation has such a name; "
            "did you mean "
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

// --- a U-Net

/// Two levels, with attention on the lower one.
graph::ModelGraphs unet() {
  const model::UnetSpec spec{.picture = {8, 8, 3},
                             .channels = 16,
                             .channel_mult = {1, 2},
                             .layers_per_level = 1,
                             .attention_resolutions = {4},
                             .num_heads = 4,
                             .norm_groups = 4,
                             .num_classes = 4,
                             .diffusion = {}};
  return model::build(spec, {4, 1, 4}, {});
}

PlanSpec on_unet(const std::vector<Pin>& pins) {
  PlanSpec spec{.global_batch_size = 4, .micro_batch_size = 1, .seq_length = 1};
  spec.grid = {.x = 2, .y = 2, .z = 2, .data = 2};
  spec.pins = pins;
  return spec;
}

std::string rest_on_unet(const std::vector<Pin>& pins, const std::string& name) {
  const graph::ModelGraphs model = unet();
  const auto made = make_plan(model, on_unet(pins));
  if (const auto* infeasible = std::get_if<Infeasible>(&made)) return test::in_words(*infeasible);
  const Plan& plan = std::get<Plan>(made);
  const graph::Graph& train = model.at(op::ProgramKind::train);
  return op::to_string(train.value(*train.find(name)).shape,
                       plan.of(op::ProgramKind::train).values[train.find(name)->index()],
                       plan.meshes[0]);
}

TEST(Pins, the_kernel_of_a_convolution_lies_as_it_says_and_what_it_meets_follows) {
  const std::string first = "down.0.0.conv1.weight", next = "down.0.0.conv2.weight";
  EXPECT_EQ(rest_on_unet({}, first), "[16 (y), 3, 3, 16 (x,z)]");
  const std::vector<Pin> turned = {pin("down.*.conv1.weight", "[* (x), 3, 3, * (y,z)]")};
  EXPECT_EQ(rest_on_unet(turned, first), "[16 (x), 3, 3, 16 (y,z)]");
  EXPECT_EQ(rest_on_unet(turned, "down.1.0.conv1.weight"), "[32 (x), 3, 3, 16 (y,z)]");
  EXPECT_NE(rest_on_unet(turned, next), rest_on_unet({}, next)) << "it contracts the other axis";
  EXPECT_EQ(rest_on_unet({pin("down.0.0.conv1.weight", "[*, *, *, *]")}, first), "[16, 3, 3, 16]");
}

TEST(Pins, one_of_the_two_weights_of_a_seam_may_be_pinned_alone) {
  const std::vector<Pin> one = {pin("up.*.conv1.weight.1", "[*, *, *, * (x)]")};
  EXPECT_EQ(rest_on_unet(one, "up.0.0.conv1.weight.1"), "[16, 3, 3, 16 (x)]");
  EXPECT_EQ(rest_on_unet(one, "up.0.0.conv1.weight.0"), rest_on_unet({}, "up.0.0.conv1.weight.0"));
}

TEST(Pins, what_a_unet_cannot_obey_is_refused_in_one_line) {
  EXPECT_EQ(rest_on_unet({pin("down.0.0.conv3.weight", "[*, *, *, *]")}, "in.weight"),
            "parallel.pin down.0.0.conv3.weight: no parameter and no activation has such a name; "
            "did you mean "
            "down.0.0.conv1.weight?");
  EXPECT_EQ(rest_on_unet({pin("in.weight", "[* (x), *]")}, "in.weight"),
            "parallel.pin in.weight: [* (x), *] is not of the dims 16 x 3 x 3 x 3 of in.weight; "
            "write a size or '*' for each of them");
  EXPECT_EQ(rest_on_unet({pin("in.weight", "[*, *, *, * (x)]")}, "in.weight"),
            "parallel.pin in.weight: [*, *, *, * (x)] cuts 3 of in.weight among 2 ranks, which do "
            "not divide it; degrees that do: 1, 3");
  EXPECT_EQ(rest_on_unet({pin("*.conv1.weight", "[* (x), *, *, *]"),
                          pin("down.*.conv1.weight", "[*, *, *, * (x)]")},
                         "in.weight"),
            "parallel.pin down.*.conv1.weight: [*, *, *, * (x)] says otherwise of "
            "down.0.0.conv1.weight than *.conv1.weight; narrow one of the two patterns");
}

// --- stages

PlanSpec on_stages(const std::vector<Pin>& pins) {
  PlanSpec spec = pinned(pins).plan;
  spec.grid = {.x = 2, .y = 2, .z = 1, .data = 1};
  spec.global_batch_size = 4;
  spec.micro_batch_size = 2;
  spec.pipeline.stages = 2;
  return spec;
}

graph::ModelGraphs for_stages() {
  GptSetup setup;
  setup.gpt.vocab_size = 40;
  return model::build(setup.gpt, {2, setup.plan.seq_length, 4}, {});
}

/// By mesh that has the parameter or receives it: how it lies at rest.
std::map<std::size_t, std::string> rest_on_stages(const std::vector<Pin>& pins,
                                                  const std::string& name) {
  const auto made = plan_model(for_stages(), on_stages(pins));
  if (const auto* infeasible = std::get_if<Infeasible>(&made))
    return {{0, test::in_words(*infeasible)}};
  const auto& [model, plan] = std::get<PlannedModel>(made);
  std::map<std::size_t, std::string> result;
  for (std::size_t mesh = 0; mesh < plan.meshes.size(); ++mesh) {
    const graph::Graph& train = model.at(op::ProgramKind::train, MeshId(mesh));
    if (const auto id = train.find(name))
      result[mesh] = op::to_string(
          train.value(*id).shape, plan.of(op::ProgramKind::train, MeshId(mesh)).values[id->index()],
          plan.meshes[mesh]);
  }
  return result;
}

using ByMesh = std::map<std::size_t, std::string>;

TEST(Pins, each_stage_obeys_those_of_its_parameters) {
  const std::vector<Pin> pins = {pin("blocks.0.mlp.up.weight", "[* (x), * (y)]"),
                                 pin("blocks.1.mlp.down.weight", "[*, *]")};
  EXPECT_EQ(rest_on_stages({}, up), (ByMesh{{0, "[32 (y), 128 (x)]"}}));
  EXPECT_EQ(rest_on_stages(pins, up), (ByMesh{{0, "[32 (x), 128 (y)]"}}));
  EXPECT_EQ(rest_on_stages(pins, "blocks.1.mlp.up.weight"), (ByMesh{{1, "[32 (y), 128 (x)]"}}));
  EXPECT_EQ(rest_on_stages(pins, "blocks.1.mlp.down.weight"), (ByMesh{{1, "[128, 32]"}}));
}

TEST(Pins, a_tied_table_lies_as_pinned_where_it_is_kept) {
  EXPECT_EQ(rest_on_stages({pin("wte.weight", "[*, * (x)]")}, "wte.weight").at(0), "[40, 32 (x)]");
}

TEST(Pins, stages_refuse_in_one_line_what_none_of_them_can_obey) {
  EXPECT_EQ(rest_on_stages({pin("blocks.2.mlp.up.weight", "[*, *]")}, up).at(0),
            "parallel.pin blocks.2.mlp.up.weight: no parameter and no activation has such a name; "
            "did you mean "
            "blocks.0.mlp.up.weight?");
  EXPECT_EQ(rest_on_stages({pin("blocks.*.attn.qkv.weight", "[*, 3 (x), *, *]")}, up).at(0),
            "parallel.pin blocks.*.attn.qkv.weight: [*, 3 (x), *, *] cuts 3 of "
            "blocks.0.attn.qkv.weight among 2 ranks, which do not divide it; degrees that do: 1, "
            "3");
  // The two differ on the second stage alone.
  EXPECT_EQ(rest_on_stages({pin("blocks.1.mlp.*.weight", "[* (x), *]"),
                            pin("blocks.1.mlp.up.weight", "[*, * (x)]")},
                           up)
                .at(0),
            "parallel.pin blocks.1.mlp.up.weight: [*, * (x)] says otherwise of "
            "blocks.1.mlp.up.weight than blocks.1.mlp.*.weight; narrow one of the two patterns");
}

TEST(Pins, layers_are_treated_alike_unless_a_pin_is_of_some_alone) {
  const graph::ModelGraphs model = for_stages();
  const auto alike = [&](const std::vector<Pin>& pins) {
    return treat_layers_alike(model.at(op::ProgramKind::train), pins);
  };
  EXPECT_TRUE(alike({}));
  EXPECT_TRUE(alike({pin("blocks.*.mlp.up.weight", "[*, *]"), pin("wte.weight", "[*, *]")}));
  EXPECT_FALSE(alike({pin("blocks.1.mlp.up.weight", "[*, *]")}));
  EXPECT_FALSE(alike({pin("*.up.weight", "[*, *]"), pin("blocks.0.mlp.*", "[*, *]")}));
}

/// The sharding of a value of the training graph, as plans print it.
std::string kept(const GptSetup& setup, const std::string& name) {
  return rest_of(setup, name);
}

TEST(Pins, an_activation_is_kept_as_it_says_and_what_reads_it_follows) {
  const std::string gelu = "blocks.0.mlp.gelu";
  const GptSetup plain, setup = pinned({pin("blocks.*.mlp.gelu", "[* (data,z), * (x), *]")});
  EXPECT_EQ(kept(plain, gelu), "[4 (data,z), 8, 128 (x)]");
  EXPECT_EQ(kept(setup, gelu), "[4 (data,z), 8 (x), 128]");
  EXPECT_EQ(kept(setup, "blocks.1.mlp.gelu"), "[4 (data,z), 8 (x), 128]");
  EXPECT_EQ(rest_of(setup, up), rest_of(plain, up));
}

TEST(Pins, a_pattern_of_a_weight_is_of_weights_alone) {
  // The activation blocks.0.mlp.up has other dims than the weights of such a name.
  EXPECT_EQ(refusal(pinned({pin("blocks.0.mlp.up*", "[*, *, *]")})),
            "parallel.pin blocks.0.mlp.up*: [*, *, *] is not of the dims 32 x 128 of "
            "blocks.0.mlp.up.weight; write a size or '*' for each of them");
}

TEST(Pins, ranks_of_data_may_cut_a_weight) {
  const GptSetup setup = pinned({pin(up, "[32 (data), 128 (x)]")});
  EXPECT_EQ(rest_of(setup, up), "[32 (data), 128 (x)]");
}

TEST(Pins, what_is_never_whole_is_refused_where_every_rank_has_it) {
  EXPECT_EQ(refusal(pinned({{up, {}, true}})), "a plan");
  EXPECT_EQ(refusal(pinned({{"blocks.*.ln1.gain", {}, true}})),
            "parallel.pin blocks.*.ln1.gain: never whole, and every rank has all of "
            "blocks.0.ln1.gain (32); write how it is cut, or set parallel.strategy = auto where an "
            "axis divides it");
  EXPECT_EQ(refusal(pinned({{up, {}, true}, pin(up, "[32, 128]")})),
            "parallel.pin blocks.0.mlp.up.weight: [32, 128] says otherwise of "
            "blocks.0.mlp.up.weight than blocks.0.mlp.up.weight; narrow one of the two patterns");
  EXPECT_EQ(refusal(pinned({pin(up, "[32 (x), 128]"), {up, {}, true}})), "a plan");
  EXPECT_EQ(refusal(pinned({{"blocks.*.mlp.gelu", {}, true}})), "a plan");
}

TEST(Pins, never_whole_is_written_so) {
  const auto never = parse_pin("wte.weight", " never whole ");
  ASSERT_TRUE(never);
  EXPECT_TRUE(never->is_never_whole);
  EXPECT_EQ(to_string(*never), "never whole");
  EXPECT_FALSE(parse_pin("wte.weight", "never"));
}

}  // namespace
}  // namespace fourfold::plan
