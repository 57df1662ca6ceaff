// Graphs, gradients as nodes, and the GPT written in them.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "model/gpt.h"
#include "model/unet.h"
#include "support/all_cut_forms.h"

namespace fourfold::graph {
namespace {

std::size_t count_nodes(const Graph& graph, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(),
                    [&](const Node& n) { return op::name(n.op) == name; }));
}

model::GptSpec small_gpt() {
  return {.num_layers = 2,
          .num_attention_heads = 2,
          .hidden_size = 8,
          .ffn_hidden_size = 24,
          .max_position_embeddings = 6,
          .vocab_size = 11};
}

TEST(Builder, refuses_shapes_that_an_op_cannot_have) {
  Builder builder(op::ProgramKind::train);
  const ValueId x = builder.parameter("x", {2, 3, 4}, op::Fill{0, {2, 3, 4}});
  const ValueId w = builder.parameter("w", {5, 6}, op::Fill{0, {5, 6}});
  EXPECT_THROW(builder.apply(op::Contract{.a_rows = 2}, {x, w}, "y"), InternalError);
}

TEST(Builder, refuses_a_second_value_of_one_name) {
  Builder builder(op::ProgramKind::train);
  const ValueId x = builder.parameter("x", {2}, op::Fill{0, {2}});
  builder.apply(op::Gelu{}, {x}, "y");
  EXPECT_THROW(builder.apply(op::Gelu{}, {x}, "y"), InternalError);
}

TEST(Check, refuses_a_read_before_its_producer) {
  Builder builder(op::ProgramKind::train);
  const ValueId late = builder.given("late", {2}, op::Element::compute, ValueRole::activation);
  builder.apply(op::Gelu{}, {late}, "y");
  EXPECT_THROW(builder.take(), InternalError);
}

TEST(Autodiff, adds_the_contributions_of_an_activation_that_is_used_twice) {
  Builder builder(op::ProgramKind::train);
  const ValueId w = builder.parameter("w", {3, 5}, op::Fill{0, {3, 5}});
  const ValueId x = builder.given("x", {1, 2, 3}, op::Element::compute, ValueRole::cache);
  const ValueId h = builder.apply_one(op::Contract{.a_rows = 2}, {x, w}, "h");
  const ValueId g = builder.apply_one(op::Gelu{}, {h}, "g");
  const ValueId sum = builder.apply_one(op::Add{}, {h, g}, "sum");
  const ValueId gradient =
      builder.given("sum/grad", {1, 2, 5}, op::Element::compute, ValueRole::cache);
  differentiate(builder, sum, gradient);
  const Graph graph = builder.take();
  EXPECT_EQ(count_nodes(graph, "gelu_gradient"), 1U);
  EXPECT_EQ(count_nodes(graph, "add"), 2U);       // the forward one, and h's two contributions
  EXPECT_EQ(count_nodes(graph, "contract"), 2U);  // x is no parameter: only w gets a gradient
  EXPECT_TRUE(graph.find("gradient/w").has_value());
}

TEST(Autodiff, goes_through_convolutions_and_never_asks_for_that_of_bytes) {
  Builder builder(op::ProgramKind::train);
  const ValueId bytes =
      builder.given("bytes", {2, 4, 4, 3}, op::Element::u8, ValueRole::activation);
  const ValueId x = builder.apply_one(op::Normalize{{0, 0, 0}, {1, 1, 1}}, {bytes}, "x");
  const auto convolved = [&](ValueId from, const std::string& name, const Shape& shape) {
    const ValueId w = builder.parameter(name + ".weight", shape, op::Fill{0, shape});
    return builder.apply_one(op::Convolution{.padding = 1}, {from, w}, name);
  };
  const ValueId first = convolved(x, "first", {5, 3, 3, 3});
  const ValueId relu = builder.apply_one(op::Relu{}, {first}, "relu");
  const ValueId second = convolved(relu, "second", {6, 3, 3, 5});
  const ValueId pooled = builder.apply_one(op::MaxPool{}, {second}, "pooled");
  const ValueId gradient =
      builder.given("pooled/grad", {2, 2, 2, 6}, op::Element::compute, ValueRole::activation);
  differentiate(builder, pooled, gradient);
  const Graph& graph = builder.graph();
  std::vector<std::string_view> backward;
  for (const Node& node : graph.nodes)
    if (node.phase == Phase::backward) backward.push_back(op::name(node.op));
  // The gradient of x first, whose reduction hides behind the product for the weight.
  EXPECT_EQ(backward, (std::vector<std::string_view>{"max_pool_gradient", "convolution_gradient",
                                                     "convolution_weight_gradient", "relu_gradient",
                                                     "convolution_weight_gradient"}));
  for (const Node& node : graph.nodes)
    if (op::name(node.op) == "relu_gradient") {
      EXPECT_EQ(node.reads[0], relu) << "the output, so that the input need not be kept";
    }
}

TEST(Autodiff, says_which_op_has_no_gradient) {
  Builder builder(op::ProgramKind::train);
  const ValueId w = builder.parameter("w", {1, 4, 5}, op::Fill{0, {1, 4, 5}});
  const ValueId last =
      builder.apply_one(op::TakePosition{}, {w, builder.field("step.index")}, "last");
  const ValueId gradient =
      builder.given("last/grad", {1, 1, 5}, op::Element::compute, ValueRole::cache);
  EXPECT_THROW(differentiate(builder, last, gradient), InternalError);
}

TEST(Autodiff, wants_a_root_that_a_node_makes) {
  Builder builder(op::ProgramKind::train);
  const ValueId w = builder.parameter("w", {3}, op::Fill{0, {3}});
  EXPECT_THROW(differentiate(builder, w, w), InternalError);
}

TEST(Autodiff, stops_at_the_root_and_leaves_later_nodes_alone) {
  Builder builder(op::ProgramKind::train);
  const ValueId v = builder.parameter("v", {2, 3}, op::Fill{0, {2, 3}}),
                w = builder.parameter("w", {3, 4}, op::Fill{0, {3, 4}});
  const ValueId y = builder.apply_one(op::Contract{}, {v, w}, "y");
  const ValueId z = builder.apply_one(op::Gelu{}, {y}, "z");
  const ValueId gradient = builder.apply_one(op::Gelu{}, {z}, "y/grad");
  differentiate(builder, y, gradient);
  const Graph graph = builder.take();
  EXPECT_EQ(count_nodes(graph, "contract"), 3U);
  EXPECT_EQ(count_nodes(graph, "gelu_gradient"), 0U);
  EXPECT_EQ(graph.nodes.back().reads, (std::vector<ValueId>{v, gradient}));
}

TEST(Check, only_a_weight_is_read_in_another_type_than_it_is_kept_in) {
  Builder builder(op::ProgramKind::train);
  const ValueId w = builder.parameter("w", {2, 3}, op::Fill{0, {2, 3}});
  EXPECT_EQ(builder.graph().value(w).element, op::Element::accumulate);
  const ValueId y = builder.apply_one(op::Gelu{}, {w}, "y");
  EXPECT_EQ(builder.graph().value(y).element, op::Element::compute);
  const ValueId norm =
      builder.apply(op::LayerNorm{.bias = false},
                    {y, builder.parameter("gain", {3}, op::Fill{1, {3}})}, "norm")[1];
  check(builder.graph());
  builder.apply_one(op::Gelu{}, {norm}, "gelu of a mean");
  EXPECT_THROW(check(builder.graph()), InternalError);
}

TEST(Check, a_gradient_of_a_weight_is_made_in_the_type_of_its_sums) {
  Builder builder(op::ProgramKind::train);
  const ValueId x = builder.given("x", {2, 3}, op::Element::compute, ValueRole::received);
  const auto sum_of = [&](op::Element element, const std::string& name) {
    return builder.given(name, {2, 3}, element, ValueRole::gradient);
  };
  builder.apply_to(
      op::Contract{.transpose_b = true}, {x, x},
      {builder.given("product", {2, 2}, op::Element::accumulate, ValueRole::gradient)});
  check(builder.graph());
  builder.apply_to(op::Gelu{}, {x}, {sum_of(op::Element::accumulate, "gelu")});
  EXPECT_THROW(check(builder.graph()), InternalError) << "it would be rounded";
}

TEST(Autodiff, gradients_say_of_what) {
  const Graph graph = model::build(small_gpt(), {.samples = 2, .length = 6, .global_batch = 2}, {})
                          .at(op::ProgramKind::train);
  std::size_t gradients = 0, sums = 0;
  for (const Value& value : graph.values) {
    if (value.role == ValueRole::gradient) {
      ASSERT_TRUE(value.gradient_of.has_value()) << value.name;
      EXPECT_EQ(gradient_name(graph.value(*value.gradient_of).name), value.name);
      continue;
    }
    const std::size_t slash = value.name.rfind('/');
    const std::string suffix = slash == std::string::npos ? "" : value.name.substr(slash + 1);
    const bool is_gradient = suffix.starts_with("grad") && value.role == ValueRole::activation;
    const bool is_sum = suffix.starts_with("sum");
    gradients += is_gradient ? 1U : 0U;
    sums += is_sum ? 1U : 0U;
    ASSERT_EQ(value.gradient_of.has_value(), is_gradient || is_sum) << value.name;
    if (!value.gradient_of) continue;
    EXPECT_EQ(graph.value(*value.gradient_of).name, value.name.substr(0, slash)) << value.name;
    EXPECT_EQ(graph.value(*value.gradient_of).shape, value.shape) << value.name;
  }
  // A block: ln1, qkv, core, ln2, up, gelu and the inputs of both norms; the end: logits, ln_f and
  // its input.
  EXPECT_EQ(gradients, 2 * 8U + 3U);
  EXPECT_EQ(sums, 2 * 2U);  // the inputs of both norms have a second use
  EXPECT_TRUE(graph.value(*graph.find("logits/grad")).gradient_of.has_value());
}

TEST(Check, takes_any_element_type_for_sums_but_one_for_all_operands) {
  for (const op::Element second : {op::Element::i64, op::Element::f64}) {
    Builder builder(op::ProgramKind::train);
    const ValueId a = builder.given("a", {}, op::Element::i64, ValueRole::counter);
    const ValueId b = builder.given("b", {}, second, ValueRole::counter);
    const ValueId y = builder.given("y", {}, op::Element::i64, ValueRole::counter);
    builder.apply_to(op::Add{}, {a, b}, {y});
    if (second == op::Element::i64)
      EXPECT_EQ(builder.take().nodes.size(), 1U);
    else
      EXPECT_THROW(builder.take(), InternalError);
  }
}

TEST(Gpt, every_parameter_has_one_gradient_two_moments_and_one_update) {
  const Graph train = model::build(small_gpt(), {.samples = 2, .length = 6, .global_batch = 2}, {})
                          .at(op::ProgramKind::train);
  std::size_t parameters = 0;
  for (const Value& value : train.values) {
    if (value.role != ValueRole::parameter) continue;
    ++parameters;
    EXPECT_TRUE(train.find(gradient_name(value.name)).has_value()) << value.name;
    EXPECT_TRUE(train.find("m/" + value.name).has_value()) << value.name;
  }
  EXPECT_EQ(parameters, 2U + 2U * 12U + 2U);
  EXPECT_EQ(count_nodes(train, "adamw"), parameters);
  EXPECT_EQ(count_nodes(train, "squared_norm"), parameters);
}

TEST(Gpt, weight_decay_is_for_weights_and_not_for_biases_and_gains) {
  const Graph train = model::build(small_gpt(), {.samples = 2, .length = 6, .global_batch = 2},
                                   {.weight_decay = 0.3})
                          .at(op::ProgramKind::train);
  for (const Node& node : train.nodes)
    if (const auto* adamw = node.op.get_if<op::AdamW>()) {
      const std::string& name = train.value(node.outputs[0]).name;
      EXPECT_EQ(adamw->weight_decay, name.ends_with(".weight") ? 0.3 : 0.0) << name;
    }
}

TEST(Gpt, the_count_by_part_is_the_number_of_parameters_of_the_graph) {
  for (const bool bias : {true, false})
    for (const bool tied : {true, false}) {
      model::GptSpec spec = small_gpt();
      spec.bias = bias;
      spec.tied_head = tied;
      const Graph train = model::build(spec, {.samples = 2, .length = 6, .global_batch = 2}, {})
                              .at(op::ProgramKind::train);
      std::int64_t in_graph = 0, by_part = 0;
      for (const Value& value : train.values)
        if (value.role == ValueRole::parameter) in_graph += value.shape.elements();
      for (const auto& part : model::count_parameters(spec)) by_part += part.parameters;
      EXPECT_EQ(in_graph, by_part);
    }
}

TEST(Gpt, gpt2_small_has_124_million_parameters) {
  std::int64_t total = 0;
  for (const auto& part : model::count_parameters({.num_layers = 12,
                                                   .num_attention_heads = 12,
                                                   .hidden_size = 768,
                                                   .ffn_hidden_size = 3072,
                                                   .max_position_embeddings = 1024,
                                                   .vocab_size = 50257}))
    total += part.parameters;
  EXPECT_EQ(total, 124439808);  // Hugging Face's gpt2
}

/// A U-Net of one level with pictures of 4 x 4.
model::UnetSpec small_unet() {
  return {.picture = {4, 4, 3},
          .channels = 8,
          .channel_mult = {1},
          .layers_per_level = 1,
          .attention_resolutions = {},
          .num_heads = 2,
          .norm_groups = 4,
          .num_classes = 2,
          .diffusion = {}};
}

TEST(Unet, model_flops_are_those_of_its_products_and_of_attention) {
  const double pixels = 16, kernel = 9, c = 8, told = 32;
  const double first = kernel * 3 * c * pixels, last = kernel * c * 3 * pixels;
  const double convolution = kernel * c * c * pixels, of_time = told * 2 * c;
  const double block = 2 * convolution + of_time;
  // On the way up: the first convolution reads twice the channels, and so does a shortcut.
  const double block_up = 3 * convolution + of_time + 2 * c * c * pixels;
  const double attention = (3 * c * c + c * c) * pixels;
  const double time = c * told + told * told;
  const double products = first + last + 3 * block + 2 * block_up + attention + time;
  const Shape qkv{1, 4, 4, 3, 2, 4}, y{1, 4, 4, 2, 4}, lse{1, 2, 16};
  const op::Attention core{.stream = {}, .window = {}, .causal = false};
  const op::AttentionGradient core_gradient{.stream = {}, .window = {}, .causal = false};
  const double of_core = op::flops(core, std::vector<Shape>{qkv, y, lse}) +
                         op::flops(core_gradient, std::vector<Shape>{qkv, y, lse, y, qkv});
  // What is fed, and the time, have no gradient.
  const double expected = 2 * (3 * products - first - c * told) + of_core;
  EXPECT_NEAR(model::model_flops_per_step(small_unet(), 5, 1) / (5 * expected), 1, 1e-12);
}

TEST(Unet, parts_of_a_sum_of_products_decay_as_the_whole_would) {
  const graph::ModelGraphs graphs =
      model::build(small_unet(), {1, 1, 1}, {.weight_decay = 0.5}, model::Writes::nothing);
  const graph::Graph& train = graphs.at(op::ProgramKind::train);
  std::size_t decayed = 0;
  for (const graph::Node& node : train.nodes) {
    const auto* update = node.op.get_if<op::AdamW>();
    if (update == nullptr) continue;
    const std::string& name = train.value(node.outputs[0]).name;
    EXPECT_EQ(update->weight_decay > 0, name.find(".weight") != std::string::npos) << name;
    decayed += update->weight_decay > 0 ? 1U : 0U;
  }
  EXPECT_GT(decayed, 0U);
  EXPECT_TRUE(train.find("up.0.0.conv1.weight.1").has_value());
}

TEST(Gpt, model_flops_follow_narayanan_for_a_ffn_of_four_times_the_width) {
  const model::GptSpec spec{.num_layers = 12,
                            .num_attention_heads = 12,
                            .hidden_size = 768,
                            .ffn_hidden_size = 3072,
                            .max_position_embeddings = 1024,
                            .vocab_size = 50257};
  const double h = 768, l = 12, s = 1024, batch = 4, vocab = 50257;
  const double expected = 72 * batch * s * l * h * h * (1 + s / (6 * h) + vocab / (12 * l * h));
  EXPECT_NEAR(model::model_flops_per_step(spec, 4, 1024) / expected, 1, 1e-12);
}

TEST(Gpt, all_graphs_start_every_persistent_value_they_share) {
  const ModelGraphs model =
      model::build(small_gpt(), {.samples = 2, .length = 6, .global_batch = 2}, {});
  const Graph& init = model.at(op::ProgramKind::init);
  for (const Graph& graph : model.graphs)
    for (const Value& value : graph.values)
      if (is_persistent(value.role)) {
        const auto start = init.find(value.name);
        ASSERT_TRUE(start.has_value()) << value.name;
        EXPECT_EQ(init.value(*start).shape, value.shape) << value.name;
      }
}

TEST(Gpt, labels_say_which_part_makes_a_value_and_which_its_gradient) {
  const Graph train = test::in_cut_forms(
      model::build(small_gpt(), {.samples = 2, .length = 6, .global_batch = 2}, {})
          .at(op::ProgramKind::train),
      4);
  const std::vector<std::pair<std::string, std::string>> labels = {
      {"blocks.0.attn.qkv.weight", "linear"},
      {"gradient/blocks.0.mlp.up.weight", "linear"},
      {"blocks.0.attn.qkv", "linear"},
      {"blocks.0.attn.qkv.biased", "linear"},
      {"blocks.1.mlp.up", "linear"},
      {"blocks.0.mlp.gelu/grad", "linear"},
      {"blocks.0.ln1", "linear"},
      {"blocks.0.ln1/grad", "linear"},
      {"blocks.0.mlp.residual", "linear"},
      {"blocks.0.attn.core/grad", "linear"},
      {"blocks.0.attn.core", "attention"},
      {"blocks.0.attn.qkv.biased/grad", "attention"},
      {"blocks.0.ln1.moments", "norm"},
      {"blocks.0.ln1/gradient_sums", "norm"},
      {"blocks.0.ln2.gain", "norm"},
      {"gradient/blocks.0.ln2.bias", "norm"},
      {"ln_f.moments", "norm"},
      {"ln_f/gradient_sums", "norm"},
      {"ln_f.gain", "norm"},
      {"gradient/blocks.0.attn.qkv.bias", "bias"},
      {"m/blocks.0.mlp.down.bias", "bias"},
      {"wte.weight", "embedding"},
      {"gradient/wpe.weight", "embedding"},
      {"embedding", "embedding"},
      {"positions/grad", "embedding"},
      {"logits", "head"},
      {"logits/grad", "head"},
      {"ln_f", "head"},
      {"ln_f/grad", "head"},
      {"loss.max", "loss"},
      {"loss.sums.label_logit", "loss"}};
  for (const auto& [name, label] : labels) {
    const auto id = train.find(name);
    ASSERT_TRUE(id.has_value()) << name;
    EXPECT_EQ(train.value(*id).label, label) << name;
  }
}

TEST(CutForms, take_the_place_of_every_norm_and_of_the_loss_and_keep_the_parameters) {
  const model::BatchShape batch{.samples = 2, .length = 6, .global_batch = 2};
  const ModelGraphs plain = model::build(small_gpt(), batch, {});
  for (const op::ProgramKind kind : {op::ProgramKind::train, op::ProgramKind::evaluate,
                                     op::ProgramKind::prefill, op::ProgramKind::decode}) {
    const std::string_view name = op::to_string(kind);
    const Graph& before = plain.at(kind);
    const Graph after = test::in_cut_forms(before, 4);
    for (const Value& value : before.values) {
      const auto kept = after.find(value.name);
      ASSERT_TRUE(kept.has_value()) << value.name;
      EXPECT_EQ(after.value(*kept).shape, value.shape) << value.name;
      EXPECT_EQ(after.value(*kept).init, value.init) << value.name;
    }
    EXPECT_EQ(count_nodes(after, "layer_norm"), 0U) << name;
    EXPECT_EQ(count_nodes(after, "layer_norm_gradient"), 0U) << name;
    EXPECT_EQ(count_nodes(after, "cross_entropy"), 0U) << name;
    const std::size_t norms = count_nodes(before, "layer_norm");
    EXPECT_EQ(norms, 5U) << name;
    EXPECT_EQ(count_nodes(after, "layer_norm_moments"), norms) << name;
    EXPECT_EQ(count_nodes(after, "layer_norm_apply"), norms) << name;
    EXPECT_EQ(count_nodes(after, "cross_entropy_merge"), count_nodes(before, "cross_entropy"));
    for (const std::string gradient : {"layer_norm_gradient_sums", "layer_norm_gradient_apply"})
      EXPECT_EQ(count_nodes(after, gradient), count_nodes(before, "layer_norm_gradient")) << name;
    EXPECT_EQ(count_nodes(after, "layer_norm_weight_gradient"),
              count_nodes(before, "layer_norm_weight_gradient"));
  }
  EXPECT_EQ(test::in_cut_forms(plain.at(op::ProgramKind::init), 4),
            plain.at(op::ProgramKind::init));
  EXPECT_THROW(test::in_cut_forms(plain.at(op::ProgramKind::train), 3), InternalError);
}

TEST(Gpt, evaluation_has_no_dropout_and_training_has_one_at_each_place) {
  model::GptSpec spec = small_gpt();
  spec.dropout = 0.2;
  const ModelGraphs model = model::build(spec, {.samples = 2, .length = 6, .global_batch = 2}, {});
  EXPECT_EQ(count_nodes(model.at(op::ProgramKind::evaluate), "dropout"), 0U);
  EXPECT_EQ(count_nodes(model.at(op::ProgramKind::train), "dropout"),
            2 * (1U + 2U * 2U));  // and its gradient
}

TEST(Gpt, gradients_of_attention_see_the_documents_that_attention_sees) {
  const ModelGraphs model = model::build(
      small_gpt(), {.samples = 2, .length = 6, .global_batch = 2, .masks_documents = true}, {});
  const Graph& train = model.at(op::ProgramKind::train);
  std::vector<ValueId> documents;
  std::size_t gradients = 0;
  for (const Node& node : train.nodes) {
    if (const auto* attention = node.op.get_if<op::Attention>()) {
      EXPECT_TRUE(attention->documents);
      documents.push_back(node.reads.at(1));
    }
    const auto* gradient = node.op.get_if<op::AttentionGradient>();
    if (gradient == nullptr) continue;
    ++gradients;
    EXPECT_TRUE(gradient->documents);
    EXPECT_EQ(std::ranges::count(node.reads, documents.at(0)), 1);
  }
  EXPECT_EQ(documents.size(), 2U);
  EXPECT_EQ(gradients, 2U);
}

TEST(Gpt, one_layer_and_one_head_are_said_in_the_singular) {
  model::GptSpec spec = small_gpt();
  EXPECT_EQ(model::describe(spec).find("GPT: 2 layers, 2 heads"), 0U) << model::describe(spec);
  spec.num_layers = spec.num_attention_heads = 1;
  EXPECT_EQ(model::describe(spec).find("GPT: 1 layer, 1 head, "), 0U) << model::describe(spec);
}

}  // namespace
}  // namespace fourfold::graph
