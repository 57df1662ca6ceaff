#include "plan/layout_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "op/rule.h"
#include "plan/make_mesh.h"
#include "plan/pin_spec.h"

namespace fourfold::plan {
namespace {

using graph::Graph;
using graph::Value;
using graph::ValueRole;

constexpr std::string_view first_line = "fourfold layout 1";

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> words;
  for (const Axis& axis : mesh.axes) words.push_back(format("{} {}", axis.name, axis.size));
  return join(words, ", ");
}

std::string axes_text(const std::vector<AxisId>& axes, const Mesh& mesh, std::string_view between) {
  std::vector<std::string> names;
  for (const AxisId axis : axes) names.push_back(mesh.axes[axis.index()].name);
  return join(names, between);
}

/// Nothing that a layout says of is without a name in the graph, but where it is of another model.
Shape shape_of(const Graph& graph, const std::string& name) {
  const auto id = graph.find(name);
  return id ? graph.value(*id).shape : Shape();
}

std::string text_of(const ParameterLayout& layout, const Shape& shape, const Mesh& mesh) {
  std::string text = op::to_string(shape, layout.rest, mesh);
  if (layout.moments != layout.rest)
    text += format("; moments {}", op::to_string(shape, layout.moments, mesh));
  if (layout.use) text += format("; used as {}", op::to_string(shape, *layout.use, mesh));
  return text;
}

std::string text_of(const Keep& keep, const Mesh& mesh) {
  const auto numbers = [](const std::vector<std::size_t>& dims, std::string_view between) {
    std::vector<std::string> words;
    for (const std::size_t dim : dims) words.push_back(format("{}", dim));
    return join(words, between);
  };
  std::vector<std::string> clauses;
  if (!keep.whole.empty()) clauses.push_back("whole " + numbers(keep.whole, ", "));
  for (const Keep::Wish& wish : keep.wishes)
    clauses.push_back(format("{} cuts {}{}", mesh.axes[wish.axis.index()].name,
                             numbers(wish.dims, " or "), wish.of_fed_dim ? " of what is fed" : ""));
  if (keep.sums_stay) clauses.emplace_back("sums stay");
  return clauses.empty() ? "as given" : join(clauses, "; ");
}

std::string text_of(const FactorAxes& cuts, const Mesh& mesh) {
  std::vector<std::string> words;
  for (const auto& [factor, axes] : cuts)
    if (!axes.empty()) words.push_back(format("{} ({})", factor, axes_text(axes, mesh, ",")));
  return words.empty() ? "whole" : join(words, ", ");
}

class LayoutReader {
 public:
  LayoutReader(std::string_view text, std::string_view file, const Graph& train, const Mesh& mesh)
      : lines_(split(std::string(text), '\n')), file_(file), train_(train), mesh_(mesh) {
    const std::vector<std::string> names = names_of_ops(train);
    for (std::size_t i = 0; i < names.size(); ++i) nodes_.emplace(names[i], &train.nodes[i]);
  }

  std::variant<Layout, std::vector<Diagnostic>> run() {
    if (trim(lines_[0]) != first_line) {
      problem(format("this is no layout: its first line is not '{}'", first_line),
              "give a file of `fourfold plan CONFIG -o FILE`");
      return std::move(problems_);
    }
    for (at_ = 1; at_ < lines_.size() && problems_.size() < most_problems; ++at_)
      if (const std::string_view line = trim(lines_[at_]); !line.empty() && line[0] != '#')
        read(line);
    look_at_padding();
    at_ = 0;
    if (problems_.empty()) look_for_what_is_missing();
    if (!problems_.empty()) return std::move(problems_);
    return std::move(layout_);
  }

 private:
  static constexpr std::size_t most_problems = 50;

  void problem(std::string message, std::string hint, std::string_view word = {}) {
    Diagnostic found{file_, at_ + 1, 0, 1, std::move(message), std::move(hint), lines_[at_]};
    if (const auto place = lines_[at_].find(word); !word.empty() && place != std::string::npos) {
      found.column = place + 1;
      found.width = word.size();
    }
    problems_.push_back(std::move(found));
  }

  /// "did you mean ...?", or which there are.
  static std::string meant(std::string_view word, const std::vector<std::string>& names) {
    if (const auto near = nearest(word, names)) return format("did you mean '{}'?", *near);
    constexpr std::size_t shown = 4;
    const std::vector<std::string> some(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), shown)));
    return format("there {} {}{}", names.size() == 1 ? "is" : "are", join(some, ", "),
                  names.size() > shown ? " ..." : "");
  }

  void read(std::string_view line) {
    const auto colon = line.find(':');
    const std::string_view subject = trim(line.substr(0, colon)),
                           body = colon == line.npos ? "" : trim(line.substr(colon + 1));
    const auto space = subject.find(' ');
    const std::string kind(subject.substr(0, space));
    const std::string name(space == subject.npos ? "" : trim(subject.substr(space + 1)));
    const std::vector<std::string> kinds = {"mesh", "samples", "parameter", "keep", "op"};
    if (std::ranges::find(kinds, kind) == kinds.end() || colon == line.npos)
      return problem("a line begins with mesh:, samples:, parameter NAME:, keep NAME: or op NAME:",
                     meant(kind, kinds), kind);
    if (!seen_.emplace(subject).second)
      return problem(format("'{}' stands here for the second time", subject), "remove one of both",
                     subject);
    if (kind == "mesh") read_mesh(body);
    if (kind == "samples") read_samples(body);
    if (kind == "parameter") read_parameter(name, body);
    if (kind == "keep") read_keep(name, body);
    if (kind == "op") read_op(name, body);
  }

  /// Ranks are fed so: a layout may not say otherwise.
  void read_samples(std::string_view body) {
    const std::size_t before = problems_.size();
    layout_.samples = axes_of(body);
    const Axes axes = plan::axes_of(mesh_);
    if (problems_.size() == before && layout_.samples != std::vector<AxisId>{axes.data, axes.z})
      problem(format("samples are divided on data and z, not on '{}'", body),
              "write 'samples: data, z'", body);
  }

  void read_mesh(std::string_view body) {
    if (body != mesh_text(mesh_))
      problem(format("the layout is of the mesh {}, the job has {}", body, mesh_text(mesh_)),
              "choose the grid that the layout was made for, or make another layout", body);
  }

  std::optional<AxisId> axis_of(std::string_view name) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < mesh_.axes.size(); ++i) {
      names.push_back(mesh_.axes[i].name);
      if (names.back() == name) return AxisId(i);
    }
    problem(format("'{}' is no axis of the mesh", name), meant(name, names), name);
    return std::nullopt;
  }

  std::vector<AxisId> axes_of(std::string_view list) {
    std::vector<AxisId> axes;
    if (trim(list).empty()) return axes;
    for (const std::string& word : split(std::string(list), ','))
      if (const auto axis = axis_of(trim(word))) axes.push_back(*axis);
    return axes;
  }

  // --- weights

  static bool is_weight(const Value& value) {
    return graph::is_weight(value) ||
           (value.role == ValueRole::received && (value.init || value.gradient_of));
  }

  void read_parameter(const std::string& name, std::string_view body) {
    const auto id = train_.find(name);
    if (!id || !is_weight(train_.value(*id))) {
      std::vector<std::string> names;
      for (const Value& value : train_.values)
        if (is_weight(value)) names.push_back(value.name);
      return problem(format("the model has no weight '{}'", name), meant(name, names), name);
    }
    const Value& weight = train_.value(*id);
    ParameterLayout layout;
    layout.is_received = weight.role == ValueRole::received;
    bool is_first = true, has_moments = false;
    for (const std::string& clause : split(std::string(body), ';')) {
      std::string_view words = trim(clause);
      op::Sharding* into = &layout.rest;
      if (words.starts_with("moments ")) {
        into = &layout.moments;
        has_moments = true;
      } else if (words.starts_with("used as ")) {
        into = &layout.use.emplace();
      } else if (!is_first) {
        return problem("this is neither the moments of a weight nor how it is used",
                       "write 'moments [...]' or 'used as [...]'", words);
      }
      if (!read_sharding(words.substr(std::min(words.find('['), words.size())), weight, *into))
        return;
      is_first = false;
    }
    if (!has_moments) layout.moments = layout.rest;
    layout_.parameters[name] = std::move(layout);
  }

  bool read_sharding(std::string_view text, const Value& weight, op::Sharding& into) {
    const auto read = op::parse_sharded_shape(text, train_.mesh, mesh_);
    if (!read) {
      problem(format("'{}' is no sharding", text),
              format("as {} is, with the axes {}", op::to_string(weight.shape, {}, mesh_),
                     mesh_text(mesh_)),
              text);
      return false;
    }
    if (read->shape != weight.shape) {
      problem(format("{} is {} here, not {}", weight.name, to_string(weight.shape),
                     to_string(read->shape)),
              "the layout is of another model", text);
      return false;
    }
    std::set<AxisId> used;
    for (std::size_t dim = 0; dim < read->sharding.dims.size(); ++dim)
      for (const op::Cut& cut : read->sharding.dims[dim])
        if (!used.insert(cut.axis).second) {
          problem(format("axis {} cuts {} twice", mesh_.axes[cut.axis.index()].name, weight.name),
                  "an axis cuts one dim", text);
          return false;
        }
    into = read->sharding;
    into.mesh = {};
    return true;
  }

  // --- values

  void read_keep(const std::string& name, std::string_view body) {
    const auto id = train_.find(name);
    if (!id) {
      std::vector<std::string> names;
      for (const Value& value : train_.values)
        if (value.role == ValueRole::activation || value.role == ValueRole::gradient)
          names.push_back(value.name);
      return problem(format("the model has no value '{}'", name), meant(name, names), name);
    }
    Keep keep;
    const std::size_t rank = train_.value(*id).shape.rank();
    for (const std::string& clause : split(std::string(body), ';'))
      if (!read_clause(trim(clause), rank, keep)) return;
    layout_.activations[name] = std::move(keep);
  }

  bool read_clause(std::string_view clause, std::size_t rank, Keep& keep) {
    constexpr std::string_view fed = " of what is fed";
    if (clause == "as given") return true;
    if (clause == "sums stay") return keep.sums_stay = true;
    if (clause.starts_with("whole ")) return read_dims(clause.substr(6), ",", rank, keep.whole);
    const auto cuts = clause.find(" cuts ");
    if (cuts == clause.npos) {
      problem(format("'{}' says nothing of how a value is kept", clause),
              "write 'as given', 'whole 0, 1', 'x cuts 2 or 1' or 'sums stay'", clause);
      return false;
    }
    const auto axis = axis_of(clause.substr(0, cuts));
    if (!axis) return false;
    Keep::Wish wish{*axis, {}, clause.ends_with(fed)};
    std::string_view dims = clause.substr(cuts + 6);
    if (wish.of_fed_dim) dims.remove_suffix(fed.size());
    if (!read_dims(dims, " or ", rank, wish.dims)) return false;
    keep.wishes.push_back(std::move(wish));
    return true;
  }

  bool read_dims(std::string_view list, std::string_view between, std::size_t rank,
                 std::vector<std::size_t>& dims) {
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(between, begin), list.size());
      const std::string_view word = trim(list.substr(begin, end - begin));
      std::size_t dim = 0;
      const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), dim);
      if (error != std::errc() || rest != word.data() + word.size() || dim >= rank) {
        problem(format("'{}' is no dim", word),
                rank == 0 ? "it has none" : format("its dims are 0 to {}", rank - 1), word);
        return false;
      }
      dims.push_back(dim);
      begin = end + between.size();
    }
    return true;
  }

  // --- ops

  void read_op(const std::string& name, std::string_view body) {
    const auto place = nodes_.find(name);
    if (place == nodes_.end()) {
      std::vector<std::string> names;
      for (const auto& [other, node] : nodes_) names.push_back(other);
      return problem(format("the model has no op that gives '{}'", name), meant(name, names), name);
    }
    const graph::Node& node = *place->second;
    if (sees_state(train_, node))
      return problem(
          format("{} sees state as it lies: a choice of its own means nothing", op::name(node.op)),
          "change the lines of its parameters", name);
    FactorAxes chosen;
    if (body != "whole")
      for (const std::string& clause : split_clauses(body))
        if (!read_factor(trim(clause), node, chosen)) return;
    layout_.ops[name] = std::move(chosen);
  }

  /// "k (x,y)".
  bool read_factor(std::string_view clause, const graph::Node& node, FactorAxes& chosen) {
    const auto open = clause.find('(');
    const std::string_view factor = trim(clause.substr(0, open));
    if (open == clause.npos || !clause.ends_with(')') || factor.size() != 1) {
      problem(format("'{}' is no cut of a factor", clause), "write 'k (x)', 'k (x,y)' or 'whole'",
              clause);
      return false;
    }
    const std::size_t before = problems_.size();
    const std::vector<AxisId> axes = axes_of(clause.substr(open + 1, clause.size() - open - 2));
    if (problems_.size() > before) return false;
    if (axes.empty()) {
      problem(format("'{}' names no axis", clause), "leave the factor out, or write 'whole'",
              clause);
      return false;
    }
    const std::map<char, std::int64_t> sizes = factor_sizes(train_, node);
    const auto size = sizes.find(factor[0]);
    if (size == sizes.end()) {
      std::vector<std::string> words;
      for (const auto& [letter, count] : sizes) words.push_back(format("{} of {}", letter, count));
      problem(format("{} has no factor '{}' that may be cut", op::name(node.op), factor),
              words.empty() ? "it has none" : "it has " + join(words, ", "), clause);
      return false;
    }
    std::int64_t ranks = 1;
    for (const AxisId axis : axes) {
      ranks *= mesh_.axes[axis.index()].size;
      const bool is_taken = std::ranges::any_of(chosen, [&](const auto& other) {
        return std::ranges::find(other.second, axis) != other.second.end();
      });
      if (is_taken || std::ranges::count(axes, axis) > 1) {
        problem(format("axis {} stands here twice", mesh_.axes[axis.index()].name),
                "an axis cuts one factor of an op", clause);
        return false;
      }
    }
    if (size->second % ranks != 0)
      uneven_.push_back({at_, std::string(clause), size->second, ranks});
    chosen[factor[0]] = axes;
    return true;
  }

  /// A factor is cut with padding where a parameter of as many rows is, between steps.
  void look_at_padding() {
    std::set<std::int64_t> padded;
    for (const auto& [name, layout] : layout_.parameters)
      if (is_padded(layout.rest)) padded.insert(shape_of(train_, name)[0]);
    for (const Uneven& one : uneven_) {
      at_ = one.line;
      if (!padded.contains(one.size))
        problem(format("{} ranks do not divide the {} of factor {}", one.ranks, one.size,
                       one.clause[0]),
                "choose axes that do", one.clause);
    }
  }

  // --- all of it

  void look_for_what_is_missing() {
    for (const std::string kind : {"mesh", "samples"})
      if (!seen_.contains(kind))
        problem(format("there is no line '{}:'", kind), "the text is not whole");
    std::vector<std::string> missing;
    for (const Value& value : train_.values)
      if (is_weight(value) && !layout_.parameters.contains(value.name))
        missing.push_back(value.name);
    if (missing.empty()) return;
    problem(format("the layout says nothing of {}{}", missing[0],
                   missing.size() == 1 ? std::string()
                                       : format(" and {} other weights", missing.size() - 1)),
            "it is of another model");
  }

  std::vector<std::string> lines_;
  std::string file_;
  const Graph& train_;
  const Mesh& mesh_;
  std::map<std::string, const graph::Node*> nodes_;  // by name of the op
  std::set<std::string, std::less<>> seen_;
  std::size_t at_ = 0;  // the line
  /// A cut of an op that its ranks do not divide.
  struct Uneven {
    std::size_t line = 0;
    std::string clause;
    std::int64_t size = 1, ranks = 1;
  };
  std::vector<Uneven> uneven_;
  Layout layout_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

std::string to_text(const Layout& layout, const Graph& train, const Mesh& mesh) {
  std::string text = format("{}\nmesh: {}\nsamples: {}\n", first_line, mesh_text(mesh),
                            axes_text(layout.samples, mesh, ", "));
  for (const auto& [name, parameter] : layout.parameters)
    text += format("parameter {}: {}\n", name, text_of(parameter, shape_of(train, name), mesh));
  for (const auto& [name, keep] : layout.activations)
    text += format("keep {}: {}\n", name, text_of(keep, mesh));
  for (const auto& [name, cuts] : layout.ops)
    text += format("op {}: {}\n", name, text_of(cuts, mesh));
  return text;
}

std::variant<Layout, std::vector<Diagnostic>> parse_layout(std::string_view text,
                                                           std::string_view file,
                                                           const Graph& train, const Mesh& mesh) {
  return LayoutReader(text, file, train, mesh).run();
}

}  // namespace fourfold::plan
