// Mistakes in the text of a layout: each is told at its line, with what works.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "plan/layout_text.h"
#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

/// A text that stands in place of another one in the layout of AxoNN, or at its end, and what is
/// said of that.
struct Mistake {
  std::string_view from;  // empty: a line more
  std::string_view to;
  std::vector<std::string_view> said;
};

const std::vector<Mistake> mistakes = {
    {"fourfold layout 1", "fourfold layout 2", {":1:1: ", "this is no layout", "first line"}},
    {"fourfold layout 1\n", "", {":1:1: ", "this is no layout"}},
    {"mesh: data 2", "mesh: data 4", {":2:7: ", "the layout is of the mesh data 4", "the job has"}},
    {"mesh: data 2, z 2", "mesh: z 2, data 2", {":2:7: ", "choose the grid"}},
    {"mesh: data 2, z 2, y 2, x 2\n", "", {"there is no line 'mesh:'", "not whole"}},
    {"samples: data, z\n", "", {"there is no line 'samples:'"}},
    {"samples: data, z", "samples: dat, z", {":3:10: ", "did you mean 'data'?"}},
    {"samples: data, z", "samples:", {"samples are divided on data and z, not on ''"}},
    {"samples: data, z", "samples: z, data", {":3:10: ", "write 'samples: data, z'"}},
    {"samples: data, z", "samples: data", {"samples are divided on data and z, not on 'data'"}},
    {"", "mesh: data 2, z 2, y 2, x 2", {"'mesh' stands here for the second time", "remove one"}},
    {"", "samples: data", {"'samples' stands here for the second time"}},
    {"", "weight wte.weight: [37, 32]", {"a line begins with mesh:, samples:, parameter NAME:"}},
    {"", "keeps blocks.0.mlp.up: as given", {"did you mean 'keep'?"}},
    {"", "op blocks.0.mlp.up", {"a line begins with"}},
    {"", "parameter", {"a line begins with"}},
    {"",
     "parameter wte.weigth: [37, 32]",
     {"the model has no weight", "did you mean 'wte.weight'?"}},
    {"", "parameter : [37, 32]", {"the model has no weight"}},
    {"", "parameter blocks.0.mlp.up: [32, 128]", {"the model has no weight"}},
    {"", "parameter wpe.weight: [8 (z), 32 (y)]", {"stands here for the second time"}},
    {"[8 (z), 32 (y)]", "[9 (z), 32 (y)]", {"the layout is of another model"}},
    {"[8 (z), 32 (y)]", "[8 (z)]", {"wpe.weight"}},
    {"[8 (z), 32 (y)]", "", {"is no sharding"}},
    {"[8 (z), 32 (y)]", "8 (z), 32 (y)", {"is no sharding"}},
    {"[8 (z), 32 (y)]", "[8 (w), 32 (y)]", {"is no sharding"}},
    {"[8 (z), 32 (y)]", "[8 (z), 32 (z)]", {"axis z cuts wpe.weight twice"}},
    {"[8 (z), 32 (y)]", "[8 (z,z), 32]", {"axis z cuts wpe.weight twice"}},
    {"[8 (z), 32 (y)]", "[8 (z), 32 (y)]; moment [8, 32]", {"moments"}},
    {"[8 (z), 32 (y)]", "[8 (z), 32 (y)]; used as [8 (w), 32]", {"is no sharding"}},
    {"parameter wpe.weight", "# wpe.weight", {"the layout says nothing of wpe.weight"}},
    {"", "op blocks.0.mlp.upp: a (x)", {"no op that gives 'blocks.0.mlp.upp'", "did you mean"}},
    {"", "op blocks.0.mlp.up: q (x)", {"has no factor 'q'", "it has a of"}},
    {"", "op blocks.0.mlp.up: k", {"'k' is no cut of a factor", "write 'k (x)'"}},
    {"", "op blocks.0.mlp.up: k (x", {"is no cut of a factor"}},
    {"", "op blocks.0.mlp.up: kk (x)", {"is no cut of a factor"}},
    {"", "op blocks.0.mlp.up: k ()", {"'k ()' names no axis", "leave the factor out"}},
    {"", "op blocks.0.mlp.up: k (w)", {"'w' is no axis of the mesh"}},
    {"", "op blocks.0.mlp.up: k (x,x)", {"axis x stands here twice"}},
    {"", "op blocks.0.mlp.up: k (x), a (x)", {"axis x stands here twice", "cuts one factor"}},
    {"", "op blocks.0.mlp.up:", {"is no cut of a factor"}},
    {"", "op blocks.0.attn.core: b (x,y,z,data)", {"do not divide the"}},
    {"", "keep blocks.0.mlp.upp: whole 0", {"did you mean"}},
    {"", "keep blocks.0.mlp.up: whole 7", {"'7' is no dim", "its dims are 0 to 2"}},
    {"", "keep blocks.0.mlp.up: whole", {"says nothing of how a value is kept"}},
    {"", "keep blocks.0.mlp.up: x cuts", {"blocks.0.mlp.up"}},
    {"", "keep blocks.0.mlp.up: w cuts 1", {"'w' is no axis of the mesh"}},
    {"", "keep blocks.0.mlp.up: x cuts one", {"'one' is no dim"}},
    {"", "keep blocks.0.mlp.up: sums go", {"sums stay"}},
    {"", "keep blocks.0.mlp.up:", {"blocks.0.mlp.up"}},
};

TEST(BadLayouts, are_told_at_their_lines_with_what_works) {
  const GptSetup setup;
  const graph::ModelGraphs model = setup.graphs();
  const graph::Graph& train = model.at(op::ProgramKind::train);
  const std::string whole = to_text(std::get<Layout>(setup.layout()), train, setup.mesh());
  for (const Mistake& mistake : mistakes) {
    std::string text = whole;
    const auto place = text.find(mistake.from);
    ASSERT_NE(place, std::string::npos) << mistake.from << " in\n" << whole;
    if (mistake.from.empty())
      text += std::string(mistake.to) + "\n";
    else
      text.replace(place, mistake.from.size(), mistake.to);
    const auto read = parse_layout(text, "my.layout", train, setup.mesh());
    const auto* problems = std::get_if<std::vector<Diagnostic>>(&read);
    ASSERT_NE(problems, nullptr) << "'" << mistake.to << "' is taken";
    EXPECT_EQ(problems->size(), 1U) << mistake.to;
    const std::string said = print(problems->front());
    for (const std::string_view words : mistake.said)
      EXPECT_NE(said.find(words), std::string::npos)
          << "'" << mistake.to << "' wants '" << words << "' in: " << said;
    EXPECT_FALSE(problems->front().hint.empty()) << said;
  }
}

}  // namespace
}  // namespace fourfold::plan
