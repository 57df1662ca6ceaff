// `fourfold plan --problem FILE --solver NAME`: an assignment problem solved alone, without any
// configuration; and what is said of bad files and command lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "support/in_process.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_here;

/// A folder with p.json, which is the current one meanwhile.
class ProblemFolder {
 public:
  explicit ProblemFolder(const std::string& text) : before_(fs::current_path()) {
    std::string pattern = (fs::temp_directory_path() / "fourfold-problem-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    fs::current_path(dir_);
    std::ofstream("p.json", std::ios::binary) << text;
  }
  ProblemFolder(const ProblemFolder&) = delete;
  ProblemFolder& operator=(const ProblemFolder&) = delete;
  ~ProblemFolder() {
    fs::current_path(before_);
    fs::remove_all(dir_);
  }

 private:
  fs::path before_, dir_;
};

/// "a" feeds "b" twice removed: by "m", and itself.
const std::string diamond = R"({"nodes": [
  {"name": "a", "comp": [4, 1], "heavy": true},
  {"name": "m", "comp": [0, 2]},
  {"name": "b", "comp": [1, 4], "heavy": true}],
 "edges": [{"src": "a", "dst": "m", "comm": [[0, 3], [3, 0]]},
           {"src": "m", "dst": "b", "comm": [[0, 3], [3, 0]]},
           {"src": "a", "dst": "b", "comm": [[0, null], [2, 0]]}]})";

TEST(PlanProblem, every_solver_that_there_is_finds_the_least_cost) {
  const ProblemFolder folder(diamond);
  for (const std::string name :
       {"elimination", "o3", "o2-once", "o2", "exhaustive", "ilp", "ilp-tight"}) {
    SCOPED_TRACE(name);
    const Outcome outcome = run_here("plan --problem p.json --format json --solver " + name);
    if (outcome.code == 13) {
      EXPECT_NE(outcome.text.find("this build has no CBC"), std::string::npos) << outcome.text;
      continue;
    }
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    const Json json = parse_json(outcome.output, "output");
    EXPECT_EQ(json.find("cost")->as_double(), 5);
    EXPECT_EQ(json.find("solver")->as_string(), name);
    EXPECT_LE(json.find("lower_bound")->as_double(), 5);
    EXPECT_EQ(json.find("nodes")->items().size(), 3U);
    for (int again = 0; again < 4; ++again)
      EXPECT_EQ(run_here("plan --problem p.json --format json --solver " + name).output,
                outcome.output);
  }
}

TEST(PlanProblem, the_text_has_the_choice_of_each_node) {
  const ProblemFolder folder(diamond);
  const Outcome outcome = run_here("plan --problem p.json");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.text, "");
  for (const std::string line :
       {"problem      3 nodes, 3 edges, 8 assignments", "solver       elimination",
        "cost         5", "lower bound  5  proved: the solver is exact", "'a'        0  4",
        "'m'        0  0", "'b'        0  1"})
    EXPECT_NE(outcome.output.find(line + "\n"), std::string::npos) << outcome.output;
}

struct BadProblem {
  std::string text, arguments;
  int code;
  std::string says;
};

const std::string alone = "plan --problem p.json";
const std::string one_node = R"({"nodes": [{"comp": [0, 1]}], "edges": []})";

const std::vector<BadProblem> bad_problems = {
    {one_node, alone + " --solver o4", 2, "no solver is called 'o4'; did you mean o3? there are "},
    {one_node, alone + " --solver simplex", 2,
     "there are elimination, o3, o2, o2-once, ilp, ilp-tight"},
    {one_node, alone + " --solver", 2, "--solver"},
    {one_node, "plan --solver o3", 2, "--solver requires --problem"},
    {one_node, "plan p.json --problem p.json", 2, "give either CONFIG or --problem FILE"},
    {one_node, "plan", 2, "give either CONFIG or --problem FILE"},
    {one_node, alone + " --ranks 4", 2, "leave out all but --solver and --format"},
    {one_node, alone + " --machine laptop", 2, "leave out all but --solver and --format"},
    {one_node, alone + " --set train.steps=4", 2, "leave out all but --solver and --format"},
    {one_node, alone + " --format yaml", 2, "--format"},
    {one_node, "plan --problem q.json", 3, "q.json: cannot be read"},
    {one_node, "plan --problem .", 3, ".: is a folder; name a file in it instead"},
    {"", alone, 3, "p.json:1:1:"},
    {"{\"nodes\": [{\"comp\": [NaN]}]}", alone, 3, "p.json:1:2"},
    {"nodes: [1]\n", alone, 3, "p.json:1:"},
    {"{\"edges\": []}", alone, 3, "p.json: \"nodes\" is missing"},
    {R"({"nodes": [{"comp": [1, -2]}], "edges": []})", alone, 3,
     "p.json: nodes[0].comp[1]: expected a number from 0 to 1e+100, or null, which forbids; got "
     "-2"},
    {R"({"nodes": [{"comp": [1]}], "edges": [{"src": 0, "dst": 7, "comm": [[0]]}]})", alone, 3,
     "p.json: edges[0].dst: there is no node 7; nodes are numbered 0 to 0"},
    {R"({"nodes": [{"comp": [1]}, {"comp": [0, 0]}],
         "edges": [{"src": 0, "dst": 1, "comm": [[0]]}]})",
     alone, 3,
     "p.json: edges[0].comm[0]: expected a cost for each of the 2 choices of node 1; got 1"},
    {R"({"nodes": [{"comp": [1]}, {"comp": [0]}, {"comp": [null, 0]}],
         "edges": [{"src": 0, "dst": 2, "comm": [[0, null]]}]})",
     alone, 5,
     "p.json: no assignment is allowed: no choice of node 0 fits all its neighbours; allow more "},
    {std::string(70, '[') + std::string(70, ']'), alone, 3, "nested deeper than 64 levels"},
};

TEST(PlanProblem, what_is_bad_is_told_in_one_line_with_its_place) {
  EXPECT_GE(bad_problems.size(), 20U);
  for (const BadProblem& bad : bad_problems) {
    SCOPED_TRACE(bad.arguments + "\n" + bad.text);
    const ProblemFolder folder(bad.text);
    const Outcome outcome = run_here(bad.arguments);
    EXPECT_EQ(outcome.code, bad.code) << outcome.text;
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.text.find(bad.says), std::string::npos) << outcome.text;
    const std::vector<std::string> lines = split(outcome.text, '\n');
    EXPECT_EQ(std::ranges::count_if(
                  lines, [](const std::string& line) { return line.find("error: ") != line.npos; }),
              1)
        << outcome.text;
  }
}

TEST(PlanProblem, too_many_assignments_are_refused_with_their_number) {
  std::string nodes;
  for (int i = 0; i < 15; ++i) nodes += std::string(i > 0 ? "," : "") + R"({"comp": [0, 1, 2, 3]})";
  const ProblemFolder folder("{\"nodes\": [" + nodes + "], \"edges\": []}");
  const Outcome outcome = run_here(alone + " --solver exhaustive");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_NE(outcome.text.find("p.json: exhaustive: 15 nodes have 1.1e+09 assignments"),
            std::string::npos)
      << outcome.text;
}

}  // namespace
}  // namespace fourfold
