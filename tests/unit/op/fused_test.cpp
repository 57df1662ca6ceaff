// Chains of rows: which pieces make one, and what follows from them.
#include "op/fused.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/chains.h"

namespace fourfold::op {
namespace {

std::string mistake_of(std::vector<Piece> pieces) {
  const auto made = Fused::of(std::move(pieces));
  const auto* mistake = std::get_if<Mistake>(&made);
  return mistake == nullptr ? "" : mistake->sentence;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Fused, operands_are_what_comes_from_outside_and_then_what_is_written) {
  const Op chain = residual_norm({1e-5, true}, true, Dropout{{7}, 0.5, {}, {}});
  std::string text;
  for (const Operand& operand : operands(chain))
    text += std::string(operand.role == Role::read ? " " : " &") + std::string(operand.name);
  EXPECT_EQ(text, " x bias seed step b gain bias &y &y &mean &rstd");
  EXPECT_EQ(name(chain), "add_bias+dropout+add&layer_norm");
  EXPECT_EQ(work_class(chain), WorkClass::reduction);
  EXPECT_EQ(work_class(bias_gelu()), WorkClass::elementwise);
  EXPECT_EQ(work_class(product_bias_gelu()), WorkClass::product);
}

TEST(Fused, an_output_lies_where_its_first_writer_may_put_it_and_nobody_reads_later) {
  EXPECT_EQ(operands(bias_gelu())[2].may_alias, 0U);
  EXPECT_EQ(operands(bias_gelu())[3].may_alias, std::nullopt) << "the sum is no read of the whole";
  const Op norm = residual_norm({1e-5, false}, true, std::nullopt);
  EXPECT_EQ(operands(norm)[4].may_alias, 0U) << "the sum lies where the branch lay";
  EXPECT_EQ(operands(residual_norm_gradient(true, std::nullopt))[6].may_alias, 4U);
  EXPECT_EQ(operands(loss_and_gradient(1))[4].may_alias, 0U)
      << "after the loss has read the logits";
  EXPECT_EQ(operands(product_and_bias())[3].may_alias, std::nullopt);
  // The second sum reads x again.
  const Op twice = chain_of({{Add{}, {0, 1, 2}}, {Add{}, {2, 0, 3}}});
  EXPECT_EQ(operands(twice)[2].may_alias, std::nullopt);
}

TEST(Fused, pieces_that_are_no_chain_are_refused_with_the_reason) {
  expect_part(mistake_of({{AddBias{}, {0, 1}}}), "add_bias has 2 operands, expected 3");
  expect_part(mistake_of({{AddBias{}, {0, 1, 3}}, {Gelu{}, {2, 4}}}),
              "add_bias|gelu: some of its pieces have no operand in common with the others");
  expect_part(mistake_of({{Gelu{}, {0, 1}}, {Gelu{}, {1, 0}}}),
              "gelu writes operand 0, which is read from outside");
  expect_part(mistake_of({{Gelu{}, {1, 0}}}), "operand 1 is read, and stands after one");
  expect_part(mistake_of({{Gelu{}, {0, 2}}}), "no piece has operand 1");
  expect_part(mistake_of({{Gelu{}, {0, std::size_t{1} << 40}}}), "gelu has no operand");
  expect_part(mistake_of({{bias_gelu(), {0, 1, 2, 3}}}), "is no piece of a chain");
  expect_part(mistake_of({{CastList{2}, {0, 1, 2, 3}}}), "cast_list is no piece of a chain");
  expect_part(mistake_of({{Contract{.unrounded = true}, {0, 1, 3}}, {AddBias{}, {3, 2, 3}}}),
              "one element type in one piece");
}

TEST(Fused, a_piece_may_read_all_that_the_one_before_reads_in_place_of_what_it_wrote) {
  const Op chain = norm_gradients({true, true}, false, true, std::nullopt, 2);
  EXPECT_EQ(name(chain), "layer_norm_weight_gradient|layer_norm_gradient+add&bias_gradient");
  EXPECT_EQ(parse_op(name(chain), attributes_text(chain, {}), {}), chain);
  EXPECT_EQ(operands(chain)[8].may_alias, 4U) << "y_grad is read by both, and by nobody later";
}

TEST(Fused, pieces_side_by_side_are_brought_together_by_a_later_one) {
  const Op chain = chain_of({{Silu{}, {0, 2}}, {Gelu{}, {1, 3}}, {Add{}, {2, 3, 4}}});
  EXPECT_EQ(name(chain), "silu|gelu&add");
  EXPECT_EQ(parse_op(name(chain), attributes_text(chain, {}), {}), chain);
}

TEST(Fused, values_between_pieces_are_the_last_operands_and_move_no_bytes) {
  const std::vector<Piece> pieces = {{Silu{}, {0, 3}}, {Gelu{}, {1, 2}}, {Add{}, {2, 3, 2}}};
  const auto made = Fused::of(pieces, 1);
  ASSERT_TRUE(std::holds_alternative<Fused>(made));
  const Op chain = std::get<Fused>(made), kept = chain_of(pieces);
  EXPECT_FALSE(chain == kept);
  EXPECT_TRUE(operands(chain)[3].is_between);
  EXPECT_FALSE(operands(chain)[2].is_between);
  EXPECT_EQ(operands(kept)[3].may_alias, 0U);
  EXPECT_EQ(operands(chain)[3].may_alias, std::nullopt);
  EXPECT_EQ(attributes_text(chain, {}), "between 1 of [0, 3] of [1, 2] of [2, 3, 2]");
  EXPECT_EQ(parse_op(name(chain), attributes_text(chain, {}), {}), chain);
  EXPECT_EQ(with_micro(chain, 3), chain);
  const std::vector<Shape> all(4, Shape{5});
  EXPECT_EQ(traffic_bytes(chain, all, DType::f32), 3 * 5 * 4);
  EXPECT_EQ(traffic_bytes(kept, all, DType::f32), 4 * 5 * 4);
}

TEST(Fused, what_no_piece_hands_to_another_is_not_between) {
  const auto mistake = [](std::vector<Piece> pieces, std::size_t between) {
    const auto made = Fused::of(std::move(pieces), between);
    const auto* found = std::get_if<Mistake>(&made);
    return found == nullptr ? std::string() : found->sentence;
  };
  const std::vector<Piece> pieces = {{Silu{}, {0, 1}}, {Gelu{}, {1, 2}}};
  expect_part(mistake(pieces, 1), "no piece hands its operand 1 from the end to another");
  expect_part(mistake(pieces, 3), "from the end to another");
  expect_part(mistake({{Silu{}, {0, 2}}, {Gelu{}, {2, 1}}}, 2), "operand 2 from the end");
  EXPECT_EQ(mistake({{Silu{}, {0, 2}}, {Gelu{}, {2, 1}}}, 1), "");
}

TEST(Fused, shapes_are_those_of_the_pieces) {
  EXPECT_EQ(outputs(product_bias_gelu(), std::vector<Shape>{{2, 3}, {3, 5}, {5}}),
            (std::vector<Shape>{{2, 5}, {2, 5}}));
  const Outputs wrong = judge_outputs(product_bias_gelu(), std::vector<Shape>{{2, 3}, {3, 5}, {4}});
  ASSERT_NE(wrong.mistake(), nullptr);
  expect_part(wrong.mistake()->sentence, "add_bias");
  const Op products = chain_of({{Contract{}, {0, 1, 3}}, {Contract{}, {3, 2, 3}}});
  EXPECT_EQ(outputs(products, std::vector<Shape>{{2, 3}, {3, 3}, {3, 3}}),
            (std::vector<Shape>{{2, 3}}));
  const Outputs wider = judge_outputs(products, std::vector<Shape>{{2, 3}, {3, 3}, {3, 7}});
  ASSERT_NE(wider.mistake(), nullptr);
  expect_part(wider.mistake()->sentence, "operand 3 has two shapes");
}

TEST(Fused, text_names_the_pieces_and_the_operands_of_each) {
  const Op chain = product_gelu_gradient({.transpose_b = true}, BiasGradient{1, true});
  const std::string text = attributes_text(chain, std::nullopt);
  EXPECT_EQ(text, "of [0, 1, 3] transpose_b true of [2, 3, 3] of [3, 4] accumulate true");
  EXPECT_EQ(parse_op(name(chain), text, std::nullopt), chain);
  const auto error = [](std::string_view name, std::string_view attributes) {
    try {
      parse_op(name, attributes, std::nullopt);
    } catch (const UserError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  expect_part(error("add_bias+gelu", "of [0, 1, 2] of [2, 3]"), "make it add_bias&gelu");
  expect_part(error("add_bias&gelu", "of [0, 1, 2]"), "cannot read ''");
  expect_part(error("add_bias&gelu", "between x of [0, 1, 2] of [2, 3]"), "cannot read 'x'");
  expect_part(error("add_bias&gelu", "between 0 of [0, 1, 2] of [2, 3]"), "cannot read '0'");
  expect_part(error("add_bias&gelu", "of [0, 1, 2] of [2, 3] of [3, 4]"), "cannot read 'of'");
  expect_part(error("add_bias&gelu", "of [0, 1, -2] of [2, 3]"), "cannot read '[0, 1, -2]'");
  expect_part(error("add_bias&nothing", "of [0, 1, 2] of [2, 3]"), "no op named 'nothing'");
  expect_part(error("fused", ""), "no op named 'fused'");
  expect_part(error("+", "of [] of []"), "no op named ''");
}

TEST(Fused, what_depends_on_the_rank_or_the_micro_batch_is_that_of_each_piece) {
  Op chain = residual_norm({1e-5, false}, false, Dropout{{7}, 0.5, {0, 4, 0}, {}});
  EXPECT_NE(with_micro(chain, 3), chain);
  std::vector<std::size_t> seen;
  for_each_place(chain, [&]<class T>(const Place& place, T& told) {
    seen.push_back(place.operand);
    if constexpr (std::is_same_v<T, SampleWindow>) told.first = 2;
  });
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 0})) << "the mask lies over the branch";
  expect_part(attributes_text(chain, std::nullopt), "first 2");
}

}  // namespace
}  // namespace fourfold::op
