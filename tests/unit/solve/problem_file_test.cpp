#include "solve/problem_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(ProblemFile, reads_names_numbers_and_what_is_forbidden) {
  const Problem problem = read_problem(
      R"({"nodes": [{"name": "qkv", "comp": [1.5, 2, null], "heavy": true}, {"comp": [0, 3]}],
          "edges": [{"src": "qkv", "dst": 1, "comm": [[0, 1], [2, null], [0, 0]]},
                    {"src": 0, "dst": 1, "comm": [[0, 0], [0, 0], [0, 1]]}]})",
      "p.json");
  EXPECT_EQ(problem, (Problem{{{"qkv", {1.5, 2, forbidden}, true}, {"", {0, 3}}},
                              {{0, 1, {0, 1, 2, forbidden, 0, 0}}, {0, 1, {0, 0, 0, 0, 0, 1}}}}));
}

TEST(ProblemFile, what_is_written_reads_back_to_the_same_bits) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, Shape::sparse, 0.2);
    EXPECT_EQ(read_problem(problem_text(problem), "p.json"), problem);
  }
  const Problem gpt = MadeGpt(2).problem;
  EXPECT_EQ(read_problem(problem_text(gpt), "p.json"), gpt);
}

/// Texts, and what is said of them after "p.json: ".
const std::vector<std::pair<std::string, std::string>> bad_texts = {
    {"[]", "expected a problem, an object with nodes, edges; got []"},
    {"{}", "\"nodes\" is missing"},
    {R"({"nodes": [{"comp": [0]}]})", "\"edges\" is missing"},
    {R"({"nodes": [], "edges": []})", "nodes: a problem has at least one node; got none"},
    {R"({"nodes": 3, "edges": []})", "nodes: expected a list; got 3"},
    {R"({"nodes": [{"comp": [0]}], "edges": {}})", "edges: expected a list; got {}"},
    {R"({"node": [], "edges": []})", "unknown key \"node\"; did you mean \"nodes\"?"},
    {R"({"nodes": [], "edges": [], "solver": 1})",
     "unknown key \"solver\"; a problem has nodes, edges"},
    {R"({"nodes": [5], "edges": []})",
     "nodes[0]: expected a node, an object with name, comp, heavy; got 5"},
    {R"({"nodes": [{"comp": [0]}, {"name": "b"}], "edges": []})", "nodes[1]: \"comp\" is missing"},
    {R"({"nodes": [{"cost": [0]}], "edges": []})",
     "nodes[0]: unknown key \"cost\"; a node has name, comp, heavy"},
    {R"({"nodes": [{"comp": []}], "edges": []})",
     "nodes[0].comp: a node has at least one choice; got none"},
    {R"({"nodes": [{"comp": 1}], "edges": []})", "nodes[0].comp: expected a list; got 1"},
    {R"({"nodes": [{"comp": [1, "2"]}], "edges": []})",
     "nodes[0].comp[1]: expected a number from 0 to 1e+100, or null, which forbids; got \"2\""},
    {R"({"nodes": [{"comp": [1, -2]}], "edges": []})",
     "nodes[0].comp[1]: expected a number from 0 to 1e+100, or null, which forbids; got -2"},
    {R"({"nodes": [{"comp": [1e200]}], "edges": []})",
     "nodes[0].comp[0]: expected a number from 0 to 1e+100, or null, which forbids; got 1e+200"},
    {R"({"nodes": [{"comp": [null, null]}], "edges": []})",
     "nodes[0].comp: all choices of node 0 are forbidden; allow one"},
    {R"({"nodes": [{"comp": [0], "name": ""}], "edges": []})",
     "nodes[0].name: expected a text; got \"\""},
    {R"({"nodes": [{"comp": [0], "heavy": 1}], "edges": []})",
     "nodes[0].heavy: expected true or false; got 1"},
    {R"({"nodes": [{"comp": [0], "name": "a"}, {"comp": [0], "name": "a"}], "edges": []})",
     "nodes[1].name: 'a' is the name of node 0 already; names differ"},
};
/// The same of edges between a node of two choices, "left", and one of three, "right".
const std::vector<std::pair<std::string, std::string>> bad_edges = {
    {"7", "edges[0]: expected an edge, an object with src, dst, comm; got 7"},
    {R"({"dst": 1, "comm": []})", "edges[0]: \"src\" is missing"},
    {R"({"src": 0, "dst": 1})", "edges[0]: \"comm\" is missing"},
    {R"({"src": 0, "dst": 1, "com": []})", "edges[0]: unknown key \"com\"; did you mean \"comm\"?"},
    {R"({"src": 0, "dst": 2, "comm": []})",
     "edges[0].dst: there is no node 2; nodes are numbered 0 to 1"},
    {R"({"src": -1, "dst": 1, "comm": []})",
     "edges[0].src: there is no node -1; nodes are numbered 0 to 1"},
    {R"({"src": "lefd", "dst": 1, "comm": []})",
     "edges[0].src: no node is called \"lefd\"; did you mean \"left\"?"},
    {R"({"src": "left", "dst": "zzzzzz", "comm": []})",
     "edges[0].dst: no node is called \"zzzzzz\""},
    {R"({"src": 0.5, "dst": 1, "comm": []})",
     "edges[0].src: expected the name or number of a node; got 0.5"},
    {R"({"src": 1, "dst": "right", "comm": [[0,0,0],[0,0,0],[0,0,0]]})",
     "edges[0]: leads from 'right' to itself; add its costs to the node's comp"},
    {R"({"src": 0, "dst": 1, "comm": 3})", "edges[0].comm: expected a list; got 3"},
    {R"({"src": 0, "dst": 1, "comm": [[0,0],[0,0],[0,0]]})",
     "edges[0].comm: expected a row for each of the 2 choices of 'left'; got 3"},
    {R"({"src": 0, "dst": 1, "comm": [[0,0,0],[0,0]]})",
     "edges[0].comm[1]: expected a cost for each of the 3 choices of 'right'; got 2"},
    {R"({"src": 0, "dst": 1, "comm": [[0,0,0],5]})",
     "edges[0].comm[1]: expected a list of costs; got 5"},
    {R"({"src": 0, "dst": 1, "comm": [[0,0,0],[0,true,0]]})",
     "edges[0].comm[1][1]: expected a number from 0 to 1e+100, or null, which forbids; got true"},
    {R"({"src": 0, "dst": 1, "comm": [[null,null,null],[null,null,null]]})",
     "edges[0].comm: all pairs of 'left' and 'right' are forbidden; allow one"},
    {R"({"src": 0, "dst": 1, "comm": [[0,0,0],[0,0,0]]},
        {"src": 1, "dst": 0, "comm": [[0,0],[0,0],[0,0]]})",
     "edges: lead in a circle: 'left' -> 'right' -> 'left'; turn one round"},
};

void expect_refused(const std::string& text, const std::string& says) {
  SCOPED_TRACE(text);
  try {
    read_problem(text, "p.json");
    FAIL() << "it was read";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), "p.json: " + says);
    EXPECT_EQ(error.code(), ExitCode::bad_data);
  }
}

TEST(ProblemFile, each_bad_text_is_refused_in_one_line_with_its_place) {
  for (const auto& [text, says] : bad_texts) expect_refused(text, says);
  for (const auto& [edges, says] : bad_edges)
    expect_refused(R"({"nodes": [{"name": "left", "comp": [1, 2]},
                                 {"name": "right", "comp": [1, 2, 3]}], "edges": [)" +
                       edges + "]}",
                   says);
}

TEST(ProblemFile, what_is_no_json_has_line_and_column) {
  for (const std::string text :
       {"{\"nodes\": [{\"comp\": [NaN]}], \"edges\": []}",
        "{\"nodes\": [{\"comp\": [1e999]}], \"edges\": []}", "{\"nodes\": [", ""})
    try {
      read_problem(text, "p.json");
      FAIL() << text;
    } catch (const UserError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("p.json:1:")) << error.what();
      EXPECT_EQ(error.code(), ExitCode::bad_data);
    }
}

TEST(ProblemFile, a_key_that_is_there_twice_is_named) {
  expect_refused("{\"nodes\": 1, \"nodes\": 2}", "not valid JSON: duplicate key \"nodes\"");
}

TEST(ProblemFile, what_is_no_file_is_refused) {
  EXPECT_THROW(load_problem("/nowhere/p.json"), UserError);
  EXPECT_THROW(load_problem("/"), UserError);
}

}  // namespace
}  // namespace fourfold::solve
