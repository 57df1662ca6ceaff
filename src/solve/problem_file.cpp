#include "solve/problem_file.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/small_file.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::solve {
namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr std::size_t most_shown = 60;  // letters of a value

std::string shown(const Json& json) {
  const std::string text = json.dump();
  return text.size() <= most_shown ? text : text.substr(0, most_shown) + "...";
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Problem read(const Json& json) {
    refuse_others(json, "", "a problem", {"nodes", "edges"});
    Problem problem;
    const std::vector<Json>& nodes = list(json, "", "nodes");
    for (std::size_t i = 0; i < nodes.size(); ++i)
      problem.nodes.push_back(node(nodes[i], format("nodes[{}]", i)));
    for (std::size_t i = 0; i < problem.nodes.size(); ++i)
      if (!problem.nodes[i].name.empty()) numbers_.emplace(problem.nodes[i].name, i);
    expect_sound(problem);
    const std::vector<Json>& edges = list(json, "", "edges");
    for (std::size_t i = 0; i < edges.size(); ++i)
      problem.edges.push_back(edge(edges[i], problem, format("edges[{}]", i)));
    expect_sound(problem);
    return problem;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw UserError(ExitCode::bad_data, format("{}: {}", file_, text));
  }
  [[noreturn]] void fail_at(const std::string& place, const std::string& expected,
                            const Json& got) const {
    fail(format("{}: expected {}; got {}", place, expected, shown(got)));
  }

  void expect_sound(const Problem& problem) const {
    if (const std::string fault = fault_of(problem); !fault.empty()) fail(fault);
  }

  void refuse_others(const Json& json, const std::string& place, const std::string& what,
                     std::vector<std::string> known) const {
    const std::string at = place.empty() ? "" : place + ": ";
    if (json.kind() != Json::Kind::object)
      fail(format("{}expected {}, an object with {}; got {}", at, what, join(known, ", "),
                  shown(json)));
    for (const Json::Member& member : json.members())
      if (std::ranges::count(known, member.key) == 0) {
        const auto near = nearest(member.key, known);
        fail(format("{}unknown key {}; {}", at, json_quoted(member.key),
                    near ? format("did you mean \"{}\"?", *near)
                         : format("{} has {}", what, join(known, ", "))));
      }
  }

  const Json& member(const Json& json, const std::string& place, const std::string& key) const {
    const Json* found = json.find(key);
    if (found == nullptr)
      fail(format("{}\"{}\" is missing", place.empty() ? "" : place + ": ", key));
    return *found;
  }

  const std::vector<Json>& list(const Json& json, const std::string& place,
                                const std::string& key) const {
    const Json& found = member(json, place, key);
    if (found.kind() != Json::Kind::array)
      fail_at(place.empty() ? key : place + "." + key, "a list", found);
    return found.items();
  }

  /// Nothing where it is none.
  static std::optional<double> cost(const Json& json) {
    if (json.kind() == Json::Kind::null) return forbidden;
    if (json.kind() != Json::Kind::integer && json.kind() != Json::Kind::number)
      return std::nullopt;
    const double value = json.as_double();
    return value >= 0 && value <= most_cost ? std::optional(value) : std::nullopt;
  }
  void add_costs(const std::vector<Json>& items, const std::string& place,
                 std::vector<double>& costs) const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::optional<double> value = cost(items[i]);
      if (!value)
        fail_at(format("{}[{}]", place, i),
                format("a number from 0 to {}, or null, which forbids", most_cost), items[i]);
      costs.push_back(*value);
    }
  }

  Node node(const Json& json, const std::string& place) const {
    refuse_others(json, place, "a node", {"name", "comp", "heavy"});
    Node node;
    if (const Json* name = json.find("name")) {
      if (name->kind() != Json::Kind::string || name->as_string().empty())
        fail_at(place + ".name", "a text", *name);
      node.name = name->as_string();
    }
    if (const Json* heavy = json.find("heavy")) {
      if (heavy->kind() != Json::Kind::boolean) fail_at(place + ".heavy", "true or false", *heavy);
      node.is_heavy = heavy->as_bool();
    }
    add_costs(list(json, place, "comp"), place + ".comp", node.comp);
    return node;
  }

  std::size_t end(const Json& json, const Problem& problem, const std::string& place) const {
    const std::size_t nodes = problem.nodes.size();
    if (json.kind() == Json::Kind::integer) {
      if (json.as_integer() < 0 || static_cast<std::size_t>(json.as_integer()) >= nodes)
        fail(format(
            "{}: there is no node {}; {}", place, json.as_integer(),
            nodes == 0 ? "there are none" : format("nodes are numbered 0 to {}", nodes - 1)));
      return static_cast<std::size_t>(json.as_integer());
    }
    if (json.kind() != Json::Kind::string) fail_at(place, "the name or number of a node", json);
    const auto found = numbers_.find(json.as_string());
    if (found == numbers_.end()) {
      std::vector<std::string> names;
      for (const Node& node : problem.nodes) names.push_back(node.name);
      const auto near = nearest(json.as_string(), names);
      fail(format("{}: no node is called {}{}", place, json_quoted(json.as_string()),
                  near && !near->empty() ? format("; did you mean {}?", json_quoted(*near)) : ""));
    }
    return found->second;
  }

  Edge edge(const Json& json, const Problem& problem, const std::string& place) const {
    refuse_others(json, place, "an edge", {"src", "dst", "comm"});
    Edge edge{end(member(json, place, "src"), problem, place + ".src"),
              end(member(json, place, "dst"), problem, place + ".dst"),
              {}};
    const std::vector<Json>& rows = list(json, place, "comm");
    expect_length(rows.size(), "row", problem, edge.src, place + ".comm");
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::string at = format("{}.comm[{}]", place, row);
      if (rows[row].kind() != Json::Kind::array) fail_at(at, "a list of costs", rows[row]);
      expect_length(rows[row].items().size(), "cost", problem, edge.dst, at);
      add_costs(rows[row].items(), at, edge.comm);
    }
    return edge;
  }

  void expect_length(std::size_t length, const std::string& what, const Problem& problem,
                     std::size_t node, const std::string& place) const {
    if (length == problem.choices(node)) return;
    fail(format("{}: expected a {} for each of the {} of {}; got {}", place, what,
                counted(static_cast<std::int64_t>(problem.choices(node)), "choice"),
                name_of(problem, node), length));
  }

  const std::string& file_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

Json costs_json(std::span<const double> costs) {
  Json list = Json::array();
  for (const double cost : costs) list.push(cost);  // what is forbidden prints as null
  return list;
}

}  // namespace

Problem read_problem(std::string_view text, const std::string& file) {
  return Reader(file).read(parse_json(text, file));
}

Problem load_problem(const std::string& path) {
  std::variant<std::string, FileFault> text = read_small_file(path, most_bytes);
  if (const auto* fault = std::get_if<FileFault>(&text))
    throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, fault->reason, fault->advice));
  return read_problem(std::get<std::string>(text), path);
}

std::string problem_text(const Problem& problem) {
  std::string text = "{\"nodes\":[";
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const Node& node = problem.nodes[i];
    Json json = Json::object();
    if (!node.name.empty()) json.set("name", node.name);
    json.set("comp", costs_json(node.comp));
    if (node.is_heavy) json.set("heavy", true);
    text += (i == 0 ? "\n" : ",\n") + json.dump();
  }
  text += "],\n\"edges\":[";
  for (std::size_t i = 0; i < problem.edges.size(); ++i) {
    const Edge& edge = problem.edges[i];
    Json rows = Json::array();
    const std::size_t columns = problem.choices(edge.dst);
    for (std::size_t at = 0; at < edge.comm.size(); at += columns)
      rows.push(costs_json(std::span(edge.comm).subspan(at, columns)));
    text += (i == 0 ? "\n" : ",\n") +
            Json::object({{"src", edge.src}, {"dst", edge.dst}, {"comm", std::move(rows)}}).dump();
  }
  return text + "]}\n";
}

}  // namespace fourfold::solve
