// How parameters lie: AxoNN's decomposition on every parameter of a GPT, and what there is to say
// where an axis divides nothing.
#include "plan/axonn.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/format.h"
#include "graph/builder.h"
#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

using Texts = std::map<std::string, std::string>;

const Layout& feasible(const std::variant<Layout, Infeasible>& layout) {
  if (const auto* infeasible = std::get_if<Infeasible>(&layout))
    throw std::runtime_error(test::in_words(*infeasible));
  return std::get<Layout>(layout);
}

/// One state of every parameter that `pick` finds, as text.
template <class Pick>
Texts texts(const GptSetup& setup, Pick&& pick) {
  const auto model = setup.graphs();
  const Mesh mesh = setup.mesh();
  const auto layout = setup.layout();
  Texts result;
  for (const graph::Value& value : model.at(op::ProgramKind::train).values) {
    if (value.role != graph::ValueRole::parameter) continue;
    const std::optional<op::Sharding> state = pick(feasible(layout).parameters.at(value.name));
    if (state) result[value.name] = op::to_string(value.shape, *state, mesh);
  }
  return result;
}
Texts rest(const GptSetup& setup) {
  return texts(setup, [](const ParameterLayout& s) { return std::optional(s.rest); });
}
Texts use(const GptSetup& setup) {
  return texts(setup, [](const ParameterLayout& s) { return s.use; });
}
Texts moments(const GptSetup& setup) {
  return texts(setup, [](const ParameterLayout& s) { return std::optional(s.moments); });
}

void add_blocks(Texts& texts, const Texts& block) {
  for (const std::string index : {"0", "1"})
    for (const auto& [name, text] : block) texts["blocks." + index + "." + name] = text;
}

TEST(Axonn, every_parameter_of_a_gpt_lies_as_axonn_has_it) {
  Texts expected = {{"wte.weight", "[37 (x:20,y:10,z:5), 32]"},
                    {"wpe.weight", "[8 (z), 32 (y)]"},
                    {"ln_f.gain", "[32]"},
                    {"ln_f.bias", "[32]"}};
  add_blocks(expected, {{"ln1.gain", "[32]"},
                        {"ln1.bias", "[32]"},
                        {"attn.qkv.weight", "[32 (y,z), 3, 8 (x), 4]"},
                        {"attn.qkv.bias", "[3, 8, 4]"},
                        {"attn.out.weight", "[8 (x,z), 4, 32 (y)]"},
                        {"attn.out.bias", "[32]"},
                        {"ln2.gain", "[32]"},
                        {"ln2.bias", "[32]"},
                        {"mlp.up.weight", "[32 (y,z), 128 (x)]"},
                        {"mlp.up.bias", "[128]"},
                        {"mlp.down.weight", "[128 (x,z), 32 (y)]"},
                        {"mlp.down.bias", "[32]"}});
  EXPECT_EQ(rest({}), expected);
  EXPECT_EQ(moments({}), expected);
}

TEST(Axonn, products_see_weights_gathered_on_z_and_small_tensors_follow_what_they_meet) {
  Texts expected = {{"wte.weight", "[37 (x:20,y:10), 32]"}, {"wpe.weight", "[8, 32 (y)]"}};
  add_blocks(expected, {{"attn.qkv.weight", "[32 (y), 3, 8 (x), 4]"},
                        {"attn.out.weight", "[8 (x), 4, 32 (y)]"},
                        {"mlp.up.weight", "[32 (y), 128 (x)]"},
                        {"mlp.down.weight", "[128 (x), 32 (y)]"}});
  EXPECT_EQ(use({}), expected);
}

// AxoNN, end of section III: x and y change places in every other layer, so that none of its
// inputs has to be converted.
TEST(Axonn, linears_alternate_between_normal_and_transposed) {
  GptSetup setup;
  setup.gpt.num_layers = 5;
  const auto layout = setup.layout();
  const Axes axes = axes_of(setup.mesh());
  bool is_normal = true;
  for (int layer = 0; layer < 5; ++layer)
    for (const std::string name : {"attn.qkv", "attn.out", "mlp.up", "mlp.down"}) {
      const ParameterLayout& states =
          feasible(layout).parameters.at(format("blocks.{}.{}.weight", layer, name));
      std::vector<AxisId> cuts;
      for (const auto& dim : states.use.value().dims)
        for (const op::Cut& cut : dim) cuts.push_back(cut.axis);
      EXPECT_EQ(cuts, is_normal ? (std::vector{axes.y, axes.x}) : (std::vector{axes.x, axes.y}));
      is_normal = !is_normal;
    }
}

TEST(Axonn, axes_of_one_rank_cut_nothing) {
  GptSetup setup;
  setup.set_grid({.data = 4});
  for (const auto& [name, text] : rest(setup)) EXPECT_EQ(text.find('('), text.npos) << text;
  setup.set_grid({.z = 4, .data = 1});  // FSDP
  EXPECT_EQ(rest(setup).at("wte.weight"), "[37 (z:10), 32]");
  EXPECT_EQ(rest(setup).at("blocks.0.mlp.down.weight"), "[128 (z), 32]");
  EXPECT_EQ(use(setup).at("blocks.0.mlp.down.weight"), "[128, 32]");
  setup.set_grid({.x = 4, .data = 1});  // Megatron
  EXPECT_EQ(rest(setup).at("blocks.0.attn.qkv.weight"), "[32, 3, 8 (x), 4]");
  EXPECT_EQ(rest(setup).at("blocks.0.attn.out.weight"), "[8 (x), 4, 32]");
}

TEST(Axonn, strides_state_the_padding_of_a_vocabulary_that_the_axes_do_not_divide) {
  GptSetup setup;
  setup.gpt.vocab_size = 40;
  EXPECT_EQ(rest(setup).at("wte.weight"), "[40 (x,y,z), 32]");
  setup.gpt.vocab_size = 41;  // eight parts of 6, the last of them empty
  EXPECT_EQ(rest(setup).at("wte.weight"), "[41 (x:24,y:12,z:6), 32]");
  setup.gpt.vocab_size = 3;
  EXPECT_EQ(rest(setup).at("wte.weight"), "[3 (x:4,y:2,z:1), 32]");
  setup.gpt.vocab_size = 37;
  setup.gpt.tied_head = false;  // z cuts the rows of a head
  EXPECT_EQ(rest(setup).at("head.weight"), "[32 (z), 37 (x:20,y:10)]");
  EXPECT_EQ(use(setup).at("head.weight"), "[32, 37 (x:20,y:10)]");
  EXPECT_EQ(rest(setup).at("wte.weight"), "[37 (x:20,y:10,z:5), 32]");
}

TEST(Axonn, heads_that_x_does_not_divide_are_cut_in_their_width_and_rows_on_z_where_it_goes) {
  const Texts wide = rest(fourteen_heads({.x = 4, .y = 2, .z = 2, .data = 1}));
  EXPECT_EQ(wide.at("blocks.0.attn.qkv.weight"), "[112 (y,z), 3, 14, 8 (x)]");
  EXPECT_EQ(wide.at("blocks.0.attn.out.weight"), "[14 (z), 8 (x), 112 (y)]");
  const Texts seven = rest(fourteen_heads({.x = 2, .y = 1, .z = 2, .data = 1}));
  EXPECT_EQ(seven.at("blocks.0.attn.out.weight"), "[14 (x), 8 (z), 112]");
  const Texts columns = rest(fourteen_heads({.x = 2, .y = 1, .z = 16, .data = 1}));
  EXPECT_EQ(columns.at("blocks.0.attn.out.weight"), "[14 (x), 8, 112 (z)]");
}

TEST(Axonn, positions_that_z_does_not_divide_are_whole) {
  GptSetup setup;
  setup.gpt.max_position_embeddings = 9;
  EXPECT_EQ(rest(setup).at("wpe.weight"), "[9, 32 (y)]");
}

TEST(Axonn, optimizer_states_are_cut_on_data_where_that_is_one_run_of_rows) {
  GptSetup setup;
  setup.plan.shard_states = true;
  const Texts cut = moments(setup);
  EXPECT_EQ(cut.at("blocks.0.attn.qkv.weight"), "[32 (y,z,data), 3, 8 (x), 4]");
  EXPECT_EQ(cut.at("blocks.0.attn.out.weight"), "[8 (x,z,data), 4, 32 (y)]");
  EXPECT_EQ(cut.at("wpe.weight"), "[8 (z,data), 32 (y)]");
  EXPECT_EQ(cut.at("ln_f.gain"), "[32]");
  EXPECT_EQ(rest(setup), rest({})) << "weights lie as without";
  setup.gpt.vocab_size = 41;  // parts of 6 rows, which data would divide
  EXPECT_EQ(moments(setup).at("wte.weight"), "[41 (x:24,y:12,z:6), 32]") << "padding stays whole";
}

// --- what cannot be

/// The problem that names these two keys.
std::string message_of(const GptSetup& setup, const std::string& axis, const std::string& size) {
  const auto layout = setup.layout();
  const auto* infeasible = std::get_if<Infeasible>(&layout);
  if (infeasible == nullptr) return "feasible";
  for (const Problem& problem : infeasible->problems) {
    const auto [keys, message] = config::in_words(problem);
    if (keys == std::vector<std::string>{"parallel.tensor." + axis, "model." + size})
      return message;
  }
  return "other keys: " + test::in_words(*infeasible);
}

std::size_t num_problems(const GptSetup& setup) {
  const auto layout = setup.layout();
  const auto* infeasible = std::get_if<Infeasible>(&layout);
  return infeasible == nullptr ? 0 : infeasible->problems.size();
}

TEST(Axonn, a_hidden_size_that_y_does_not_divide_is_said_once_for_all_blocks) {
  GptSetup setup;
  setup.set_grid({.x = 1, .y = 5, .z = 1, .data = 1});
  EXPECT_EQ(
      message_of(setup, "y", "hidden_size"),
      "parallel.tensor.y = 5 does not divide the 32 columns of wpe.weight that a rank would hold "
      "(see model.hidden_size); degrees that do: 1, 2, 4, 8");
  EXPECT_EQ(num_problems(setup), 1U) << "nothing is said about the ffn width";
}

TEST(Axonn, a_ffn_width_that_x_does_not_divide_names_its_own_key) {
  GptSetup setup;
  setup.gpt.ffn_hidden_size = 100;
  setup.set_grid({.x = 8, .y = 1, .z = 1, .data = 1});
  EXPECT_EQ(message_of(setup, "x", "ffn_hidden_size"),
            "parallel.tensor.x = 8 does not divide the 100 columns of blocks.0.mlp.up.weight that "
            "a rank would hold (see model.ffn_hidden_size); degrees that do: 1, 2, 4, 5, 10");
  EXPECT_EQ(num_problems(setup), 1U);
}

TEST(Axonn, heads_and_their_width_are_named_where_x_divides_neither) {
  GptSetup setup = fourteen_heads({.x = 16, .y = 1, .z = 1, .data = 1});
  const std::string message = message_of(setup, "x", "hidden_size");
  EXPECT_NE(message.find("the 14 x 8 columns of blocks.0.attn.qkv.weight"), message.npos)
      << message;
  EXPECT_NE(message.find("degrees that do: 1, 2, 4, 7, 8, 14"), message.npos) << message;
}

TEST(Axonn, what_a_rank_would_hold_counts_for_z) {
  GptSetup setup;
  setup.set_grid({.x = 1, .y = 4, .z = 16, .data = 1});
  EXPECT_EQ(message_of(setup, "z", "hidden_size"),
            "parallel.tensor.z = 16 does not divide the 8 rows of blocks.0.attn.qkv.weight that a "
            "rank would hold (see model.hidden_size); degrees that do: 1, 2, 4, 8");
}

TEST(Axonn, the_degrees_that_a_message_names_work) {
  struct Case {
    Grid grid;
    std::string axis, size;
  };
  std::size_t tried = 0;
  for (const Case& c : {Case{{.y = 5, .data = 1}, "y", "hidden_size"},
                        Case{{.y = 3, .z = 2, .data = 1}, "y", "hidden_size"},
                        Case{{.x = 3, .data = 1}, "x", "ffn_hidden_size"},
                        Case{{.x = 5, .data = 1}, "x", "hidden_size"},
                        Case{{.z = 7, .data = 1}, "z", "hidden_size"},
                        Case{{.y = 8, .z = 64, .data = 1}, "z", "hidden_size"}}) {
    GptSetup setup;
    setup.set_grid(c.grid);
    const std::string message = message_of(setup, c.axis, c.size);
    const auto list = message.find("degrees that do: ");
    ASSERT_NE(list, message.npos) << message;
    std::istringstream degrees(message.substr(list + 17));
    for (std::int64_t degree = 0; degrees >> degree; degrees.ignore(1)) {
      Grid grid = c.grid;
      (c.axis == "x" ? grid.x : c.axis == "y" ? grid.y : grid.z) = degree;
      setup.set_grid(grid);
      const std::string again = message_of(setup, c.axis, c.size);
      EXPECT_TRUE(again == "feasible" || again.starts_with("other keys")) << again;
      ++tried;
    }
  }
  EXPECT_GT(tried, 20U);
}

/// Two products over numbers that are fed, `fed` for each sample.
graph::Graph of_numbers(std::int64_t fed) {
  graph::Builder b(op::ProgramKind::train);
  const auto weight = [&](const char* name, const Shape& shape) {
    return b.parameter(name, shape, op::InitNormal{random_stream(name), 1, shape});
  };
  const graph::ValueId x = b.input("numbers", {4, fed}, op::Element::compute);
  const graph::ValueId y =
      b.apply_one(op::Contract{}, {x, weight("first", {fed, 16})}, "first.out");
  b.apply_one(op::Contract{}, {y, weight("second", {16, 8})}, "second.out");
  return b.take();
}

TEST(Axonn, what_is_fed_and_too_few_to_cut_stays_whole_and_the_outputs_are_cut_on_both_axes) {
  const Mesh mesh{"main",
                  {{"data", 1}, {"z", 1}, {"y", 4}, {"x", 2}},
                  {Rank(0), Rank(1), Rank(2), Rank(3), Rank(4), Rank(5), Rank(6), Rank(7)}};
  const auto used = [&](std::int64_t fed, const char* name) {
    const graph::Graph graph = of_numbers(fed);
    const Layout layout = feasible(axonn(graph, mesh, {}));
    return op::to_string(graph.value(*graph.find(name)).shape, *layout.parameters.at(name).use,
                         mesh);
  };
  EXPECT_EQ(used(3, "first"), "[3, 16 (x,y)]");
  EXPECT_EQ(used(3, "second"), "[16 (x), 8 (y)]");
  EXPECT_EQ(used(12, "first"), "[12 (y), 16 (x)]");
}

TEST(Axonn, what_is_added_to_padded_classes_lies_as_they_do) {
  constexpr std::int64_t classes = 37;
  graph::Builder b(op::ProgramKind::train);
  const auto weight = [&](const char* name, const Shape& shape) {
    return b.parameter(name, shape, op::InitNormal{random_stream(name), 1, shape});
  };
  const graph::ValueId x = b.input("numbers", {4, 16}, op::Element::compute),
                       labels = b.input("labels", {4}, op::Element::i32);
  graph::ValueId y = b.apply_one(op::Contract{}, {x, weight("head", {16, classes})}, "product");
  y = b.apply_one(op::AddBias{}, {y, weight("bias", {classes})}, "logits");
  b.apply(op::CrossEntropy{}, {y, labels}, "loss");
  const graph::Graph graph = b.take();
  const Mesh mesh{
      "main", {{"data", 1}, {"z", 1}, {"y", 2}, {"x", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  const Layout layout = feasible(axonn(graph, mesh, {}));
  const auto rest = [&](const char* name) {
    return op::to_string(graph.value(*graph.find(name)).shape, layout.parameters.at(name).rest,
                         mesh);
  };
  EXPECT_EQ(rest("head"), "[16, 37 (x:20,y:10)]");
  EXPECT_EQ(rest("bias"), "[37 (x:20,y:10)]");
}

}  // namespace
}  // namespace fourfold::plan
