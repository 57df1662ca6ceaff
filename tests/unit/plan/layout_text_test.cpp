// Layouts as text: every one reads back, and what is wrong with a text is said with what was meant.
#include "plan/layout_text.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "base/text.h"
#include "support/random_plans.h"
#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

std::string in_words(const std::vector<Diagnostic>& problems) {
  std::string text;
  for (const Diagnostic& problem : problems) text += print(problem) + "\n";
  return text;
}

TEST(LayoutText, of_any_layout_reads_back) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const test::RandomPlan drawn = test::RandomPlans(seed).make();
    const graph::ModelGraphs model = drawn.setup.graphs();
    const graph::Graph& train = model.at(op::ProgramKind::train);
    const Mesh mesh = make_mesh(drawn.setup.plan.grid);
    const std::string text = to_text(drawn.layout, train, mesh);
    const auto read = parse_layout(text, "layout", train, mesh);
    ASSERT_TRUE(std::holds_alternative<Layout>(read)) << drawn.name << "\n"
                                                      << in_words(std::get<1>(read));
    EXPECT_EQ(std::get<Layout>(read), drawn.layout) << drawn.name << "\n" << text;
  }
}

class LayoutTextOfGpt : public testing::Test {
 protected:
  LayoutTextOfGpt() : model_(setup_.graphs()) {
    text_ = to_text(std::get<Layout>(setup_.layout()), train(), setup_.mesh());
  }
  const graph::Graph& train() const { return model_.at(op::ProgramKind::train); }

  /// What is said of the text of AxoNN's layout with one line more.
  std::string said_of_line(const std::string& line) const { return said_of(text_ + line + "\n"); }
  /// ... with other words in some place.
  std::string said_of_change(const std::string& from, const std::string& to) const {
    std::string text = text_;
    EXPECT_NE(text.find(from), std::string::npos) << from << " in\n" << text;
    text.replace(text.find(from), from.size(), to);
    return said_of(text);
  }
  std::string said_of(const std::string& text) const {
    const auto read = parse_layout(text, "my.layout", train(), setup_.mesh());
    const auto* problems = std::get_if<1>(&read);
    return problems == nullptr ? "nothing" : in_words(*problems);
  }

  GptSetup setup_;
  graph::ModelGraphs model_;
  std::string text_;
};

#define EXPECT_SAYS(said, words) \
  EXPECT_NE((said).find(words), std::string::npos) << "said: " << (said)

TEST_F(LayoutTextOfGpt, may_be_edited) {
  EXPECT_EQ(said_of(text_), "nothing");
  EXPECT_EQ(said_of_line("# the first product by samples alone\n\n"
                         "op blocks.0.mlp.up: a (data,z)\n"
                         "keep blocks.0.mlp.gelu: whole 0, 1, 2; x cuts 2 or 1; sums stay"),
            "nothing");
}

TEST_F(LayoutTextOfGpt, that_is_none_is_refused) {
  EXPECT_SAYS(said_of(""), "my.layout:1:1: error: this is no layout");
  EXPECT_SAYS(said_of("parallel: {data: 2}\n"), "its first line is not 'fourfold layout 1'");
}

TEST_F(LayoutTextOfGpt, names_the_mesh_it_is_of) {
  EXPECT_SAYS(said_of_change("mesh: data 2", "mesh: data 4"),
              "the layout is of the mesh data 4, z 2, y 2, x 2, the job has data 2, z 2, y 2, x 2");
  EXPECT_SAYS(said_of_change("samples: data, z\n", ""), "there is no line 'samples:'");
  EXPECT_SAYS(said_of_change("samples: data", "samples: dat"), "did you mean 'data'?");
}

TEST_F(LayoutTextOfGpt, says_which_weight_was_meant) {
  EXPECT_SAYS(said_of_line("parameter wte.weigth: [37, 32]"), "did you mean 'wte.weight'?");
  EXPECT_SAYS(said_of_line("parameter blocks.0.ln1: [37, 32]"), "the model has no weight");
  EXPECT_SAYS(said_of_line("parameter wte.weight: [37, 32]"), "stands here for the second time");
  EXPECT_SAYS(said_of_change("[8 (z), 32 (y)]", "[9 (z), 32 (y)]"),
              "the layout is of another model");
  EXPECT_SAYS(said_of_change("[8 (z), 32 (y)]", "[8 (w), 32 (y)]"), "is no sharding");
  EXPECT_SAYS(said_of_change("[8 (z), 32 (y)]", "[8 (z), 32 (z)]"), "axis z cuts wpe.weight twice");
  EXPECT_SAYS(said_of_change("parameter wpe.weight", "# wpe.weight"),
              "the layout says nothing of wpe.weight");
}

TEST_F(LayoutTextOfGpt, says_which_op_or_factor_was_meant) {
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.upp: a (x)"), "did you mean 'blocks.0.mlp.up'?");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: q (x)"),
              "contract has no factor 'q' that may be cut");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: q (x)"),
              "it has a of 4, b of 8, k of 32, p of 128");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: a (q)"), "'q' is no axis of the mesh");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: a (x), k (x)"), "axis x stands here twice");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: a (x,y,z,data)"),
              "16 ranks do not divide the 4 of factor a");
  EXPECT_SAYS(said_of_line("op blocks.0.mlp.up: a x"), "'a x' is no cut of a factor");
  EXPECT_SAYS(said_of_line("op blocks.0.attn.core: t (x)"), "has no factor 't' that may be cut");
  EXPECT_SAYS(said_of_line("op wte.weight: a (x)"), "change the lines of its parameters");
}

TEST_F(LayoutTextOfGpt, says_which_value_or_dim_was_meant) {
  EXPECT_SAYS(said_of_line("keep blocks.0.mlp.geluu: whole 0"),
              "did you mean 'blocks.0.mlp.gelu'?");
  EXPECT_SAYS(said_of_line("keep blocks.0.mlp.gelu: whole 3"), "its dims are 0 to 2");
  EXPECT_SAYS(said_of_line("keep blocks.0.mlp.gelu: w cuts 1"), "'w' is no axis of the mesh");
  EXPECT_SAYS(said_of_line("keep blocks.0.mlp.gelu: sums go"),
              "says nothing of how a value is kept");
  EXPECT_SAYS(said_of_line("kep blocks.0.mlp.gelu: whole 0"), "did you mean 'keep'?");
}

}  // namespace
}  // namespace fourfold::plan
