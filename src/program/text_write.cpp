// Programs to text: the frame around the lines of text_instruction.h.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "program/text.h"
#include "program/text_instruction.h"

namespace fourfold::program {
namespace {

// --- what the form can carry

template <class Table, class NameOf>
void require_names(const Table& table, NameOf&& name_of, std::string_view what) {
  std::unordered_set<std::string_view> seen;
  for (const auto& entry : table) {
    const std::string_view name = name_of(entry);
    require(is_name(name), format("the name '{}' of a {} can be printed", name, what));
    require(seen.insert(name).second, format("{} is the name of one {} only", name, what));
  }
}

void require_sharding(const Program& program, const Buffer& buffer) {
  const op::Sharding& sharding = buffer.sharding;
  require(sharding.mesh.index() < program.meshes.size(),
          format("buffer {} lies on a mesh of the program", buffer.name));
  const bool any_cut = std::any_of(sharding.dims.begin(), sharding.dims.end(),
                                   [](const auto& cuts) { return !cuts.empty(); });
  require(sharding.dims.empty() || (any_cut && sharding.dims.size() == buffer.global.rank()),
          format("the sharding of {} lists no dims or all of them, some cut", buffer.name));
  const std::size_t axes = program.meshes[sharding.mesh.index()].axes.size();
  for (const auto& cuts : sharding.dims)
    for (const op::Cut& cut : cuts)
      require(cut.axis.index() < axes, format("{} is cut on axes of its mesh", buffer.name));
  for (const op::Partial& partial : sharding.partial)
    require(partial.axis.index() < axes, format("{} is partial on axes of its mesh", buffer.name));
}

void require_ids(const Program& program, const Instruction& instruction) {
  require(instruction.stream.index() < program.streams.size(), "an instruction's stream exists");
  for (const Access& access : accesses(instruction))
    require(access.slice.buffer.index() < program.buffers.size(), "an instruction's buffers exist");
  std::visit(
      [&]<class Kind>(const Kind& what) {
        if constexpr (requires { what.group; })
          require(what.group.index() < program.groups.size(), "a collective's group exists");
        if constexpr (requires { what.input; })
          require(what.input.index() < program.inputs.size(), "the input of a feed exists");
        if constexpr (requires { what.event; })
          require(what.event.index() < program.num_events, "an event is below num_events");
        if constexpr (std::is_same_v<Kind, Compute>)
          require(what.implementation.empty() || is_name(what.implementation),
                  "the name of an implementation can be printed");
      },
      instruction.what);
}

void require_tasks(const Program& program) {
  std::size_t next = 0;
  for (const Task& task : program.tasks) {
    require(task.begin == next && task.end >= task.begin, "tasks follow each other without gap");
    next = task.end;
  }
  require(next == program.instructions.size(), "tasks cover all instructions");
}

void require_printable(const Program& program) {
  require_names(program.meshes, [](const Mesh& m) -> std::string_view { return m.name; }, "mesh");
  for (const Mesh& mesh : program.meshes)
    require_names(mesh.axes, [](const Axis& a) -> std::string_view { return a.name; }, "axis");
  require_names(program.groups, [](const Group& g) -> std::string_view { return g.name; }, "group");
  for (const Group& group : program.groups)
    require(group.mesh.index() < program.meshes.size() && !group.axes.empty() &&
                std::ranges::all_of(group.axes,
                                    [&](AxisId axis) {
                                      return axis.index() <
                                             program.meshes[group.mesh.index()].axes.size();
                                    }),
            "a group lies along axes of a mesh");
  require_names(
      program.streams, [](const std::string& s) -> std::string_view { return s; }, "stream");
  for (const std::string& stream : program.streams)
    require(stream != "task" && stream != "end", "a stream is not named like a line of the frame");
  require_names(program.inputs, [](const Input& i) -> std::string_view { return i.name; }, "input");
  require_names(
      program.buffers, [](const Buffer& b) -> std::string_view { return b.name; }, "buffer");
  for (const Buffer& buffer : program.buffers) require_sharding(program, buffer);
  for (const Instruction& instruction : program.instructions) require_ids(program, instruction);
  require_tasks(program);
}

// --- header and buffers

/// "0..3 8 10": runs of successive ranks shortened.
template <class List>
std::string ranks_text(const List& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1].index() == ranks[last].index() + 1) ++last;
    text += format(" {}", ranks[i].index());
    if (last > i) text += format("..{}", ranks[last].index());
    i = last + 1;
  }
  return text;
}

std::string axes_text(const Mesh& mesh, const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    text += format("{}{} {}", axis == 0 ? "" : ", ", mesh.axes[axis].name, numbers[axis]);
  return text;
}

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : mesh.axes) sizes.push_back(axis.size);
  return format("[{}] ranks{}", axes_text(mesh, sizes), ranks_text(mesh.ranks));
}

/// Where the rank stands on the first mesh that has it, for people.
std::string coordinates_comment(const Program& program) {
  for (const Mesh& mesh : program.meshes) {
    const auto coordinates = mesh.coordinates_of(program.rank);
    if (coordinates && !mesh.axes.empty()) return format("  # {}", axes_text(mesh, *coordinates));
  }
  return {};
}

std::string header_text(const Program& program) {
  std::string text = format("program {}\n", op::to_string(program.kind));
  const auto line = [&](std::string_view key, const std::string& value) {
    text += format("  {:<10}  {}\n", key, value);
  };
  line("rank",
       format("{} of {}{}", program.rank.index(), program.world, coordinates_comment(program)));
  line("persistent",
       format("{} bytes  # {}", program.persistent_bytes, format_bytes(program.persistent_bytes)));
  line("transient",
       format("{} bytes  # {}", program.transient_bytes, format_bytes(program.transient_bytes)));
  for (const Mesh& mesh : program.meshes) line("mesh", format("{} {}", mesh.name, mesh_text(mesh)));
  for (const Group& group : program.groups) {
    const Mesh& mesh = program.meshes[group.mesh.index()];
    std::string along;
    for (const AxisId axis : group.axes)
      along += format("{}{}", along.empty() ? "" : ", ", mesh.axes[axis.index()].name);
    line("group", format("{} mesh {} along {} ranks{}", group.name, mesh.name, along,
                         ranks_text(group.members)));
  }
  for (const std::string& stream : program.streams) line("stream", stream);
  for (const Input& input : program.inputs)
    line("input", format("{} {} {}", input.name, fourfold::to_string(input.dtype),
                         fourfold::to_string(input.sample_shape)));
  const Feeds& feeds = program.feeds;
  line("feeds",
       format("micros {} samples {} first {} count {}{}", feeds.micros, feeds.samples, feeds.first,
              feeds.count, feeds.chunks == 1 ? "" : format(" chunks {}", feeds.chunks)));
  if (program.reduce) line("reduce", std::string(fourfold::to_string(*program.reduce)));
  line("events", format("{}", program.num_events));
  return text;
}

/// Lines of columns, each as wide as its widest cell; the columns named in `right` end flush.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const bool is_right = std::find(right.begin(), right.end(), i) != right.end();
      line +=
          is_right ? format("  {:>{}}", row[i], widths[i]) : format("  {:<{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string blocked_text(const Buffer& buffer, const Mesh& mesh) {
  if (!buffer.blocked) return {};
  return format(" blocked {} {} {}", buffer.blocked->dim,
                mesh.axes[buffer.blocked->axis.index()].name, buffer.blocked->share);
}

std::string buffers_text(const Program& program) {
  std::vector<std::vector<std::string>> rows;
  for (const Buffer& buffer : program.buffers) {
    const std::size_t mesh = buffer.sharding.mesh.index();
    rows.push_back({buffer.name, std::string(fourfold::to_string(buffer.dtype)),
                    mesh == 0 ? "" : format("on {}", program.meshes[mesh].name),
                    op::to_string(buffer.global, buffer.sharding, program.meshes[mesh]) +
                        blocked_text(buffer, program.meshes[mesh]),
                    buffer.region == Region::persistent ? "persistent @" : "transient @",
                    format("{}", buffer.offset_bytes), format("{} bytes", buffer.size_bytes),
                    std::string(to_string(buffer.role)),
                    buffer.label.empty() ? "" : format("label {}", buffer.label),
                    buffer.two_by_parity ? "x2 by parity" : ""});
  }
  return format("buffers {}\n", program.buffers.size()) + aligned(rows, {5, 6});
}

// --- tasks

/// Finds for each task an earlier one with the same text up to micro-batch and event numbers.
class Folder {
 public:
  explicit Folder(const Program& program) : program_(program) {}

  /// "forward(0), events +7" where the task equals that one; nothing where it has to be printed.
  std::optional<std::string> fold(std::size_t index) {
    const Task& task = program_.tasks[index];
    std::optional<std::string> found;
    const std::array<EventStyle, 2> styles = event_styles(task);
    std::array<std::string, 2> keys;
    for (std::size_t way = 0; way < styles.size() && !found; ++way) {
      keys[way] = key(task, way, styles[way]);
      found = match(task, keys[way], way, styles[way]);
    }
    latest_[short_text(task)] = index;
    if (!found)
      for (std::size_t way = 0; way < styles.size(); ++way)
        printed_[std::move(keys[way])] = {index, styles[way].base};
    return found;
  }

 private:
  struct Printed {
    std::size_t task = 0;
    std::int64_t base = 0;
  };

  /// Either all events of the task move alike, or only those from its first record on.
  std::array<EventStyle, 2> event_styles(const Task& task) const {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    std::int64_t first = none, first_recorded = none;
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const What& what = program_.instructions[i].what;
      if (const auto* record = std::get_if<Record>(&what))
        first_recorded = std::min(first_recorded, static_cast<std::int64_t>(record->event.index()));
      if (const auto* wait = std::get_if<Wait>(&what))
        first = std::min(first, static_cast<std::int64_t>(wait->event.index()));
    }
    first = std::min(first, first_recorded);
    return {EventStyle{0, first == none ? 0 : first},
            EventStyle{first_recorded, first_recorded == none ? 0 : first_recorded}};
  }

  std::string key(const Task& task, std::size_t way, EventStyle style) const {
    std::string text = format("{} {} {}\n", way, to_string(task.kind), task.micro.has_value());
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const InstructionColumns line =
          instruction_columns(program_, program_.instructions[i], task.micro, style);
      for (const std::string* column :
           {&line.stream, &line.name, &line.dtype, &line.operands, &line.rest})
        text += *column + "\t";
      text += "\n";
    }
    return text;
  }

  std::optional<std::string> match(const Task& task, const std::string& text, std::size_t way,
                                   EventStyle style) const {
    const auto found = printed_.find(text);
    if (task.begin == task.end || found == printed_.end()) return std::nullopt;
    const std::string label = short_text(program_.tasks[found->second.task]);
    if (latest_.at(label) != found->second.task) return std::nullopt;
    const std::int64_t shift = style.base - found->second.base;
    if (shift == 0) return label;
    return format("{}, {}events {:+}", label, way == 0 ? "" : "own ", shift);
  }

  const Program& program_;
  std::unordered_map<std::string, Printed> printed_;
  std::unordered_map<std::string, std::size_t> latest_;
};

/// True if a buffer has a local shape: a program that is only printed may claim cuts that do not
/// divide.
bool has_local_shape(const Program& program, const Buffer& buffer) {
  if (buffer.sharding.mesh.index() >= program.meshes.size()) return false;
  const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
  if (buffer.sharding.dims.size() > buffer.global.rank()) return false;
  for (std::size_t dim = 0; dim < buffer.sharding.dims.size(); ++dim) {
    std::int64_t ranks = 1;
    for (const op::Cut& cut : buffer.sharding.dims[dim]) {
      ranks *= mesh.axes[cut.axis.index()].size;
      if (cut.stride.value_or(1) < 1) return false;
    }
    const bool has_elements = buffer.global[dim] > 0 || buffer.sharding.dims[dim].empty();
    if (ranks == 0 || buffer.global[dim] % ranks != 0 || !has_elements) return false;
  }
  return true;
}

/// The sizes of a product of whole buffers and which factor lies transposed, "m 768 n 384 k 128
/// nt"; "" for anything else.
std::string product_sizes(const Program& program, const Compute& compute) {
  const auto contract = op::product_of(compute.op);
  if (!contract) return "";
  std::vector<Shape> shapes;
  for (const Slice& slice : compute.slices) {
    if (slice != program.whole(slice.buffer) ||
        !has_local_shape(program, program.buffer(slice.buffer)))
      return "";
    shapes.push_back(program.local_shape(slice.buffer));
  }
  if (shapes.size() < 3) return "";
  if (op::judge_outputs(*contract, op::Shapes(shapes).first(2)).mistake() != nullptr) return "";
  const op::ProductSizes sizes = op::product_sizes(*contract, shapes);
  return format("{}m {} n {} k {} {}",
                sizes.count > 1 ? format("{} times ", sizes.count) : std::string(), sizes.m,
                sizes.n, sizes.k, sizes.layout);
}

/// What a line moves, multiplies or waits for, for people.
std::string line_comment(const Program& program, const Instruction& instruction,
                         const std::vector<std::optional<StreamId>>& recorders) {
  if (const auto* wait = std::get_if<Wait>(&instruction.what)) {
    const auto& recorder = recorders[wait->event.index()];
    return recorder ? format("  # for {}", program.streams[recorder->index()]) : "";
  }
  if (const auto* compute = std::get_if<Compute>(&instruction.what)) {
    const std::string sizes = product_sizes(program, *compute);
    return sizes.empty() ? "" : "  # " + sizes;
  }
  std::int64_t bytes = 0;
  for (const Access& access : accesses(instruction)) bytes = std::max(bytes, access.slice.bytes());
  return bytes == 0 ? "" : format("  # {}", format_bytes(bytes));
}

class TaskPrinter {
 public:
  explicit TaskPrinter(const Program& program) : program_(program), recorders_(program.num_events) {
    for (const Instruction& instruction : program.instructions) {
      if (const auto* record = std::get_if<Record>(&instruction.what))
        recorders_[record->event.index()] = instruction.stream;
      name_width_ = std::max(name_width_, name(instruction).size());
      stream_width_ = std::max(stream_width_, program.streams[instruction.stream.index()].size());
    }
  }

  std::string print(const Task& task) const {
    std::vector<InstructionColumns> lines;
    std::size_t operands_width = 0;
    for (std::size_t i = task.begin; i < task.end; ++i) {
      lines.push_back(instruction_columns(program_, program_.instructions[i], task.micro));
      operands_width =
          std::max(operands_width, std::min(lines.back().operands.size(), longest_aligned));
    }
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const InstructionColumns& line = lines[i];
      // A line without operands (record, wait) has its attributes in their place.
      const bool bare = line.operands.empty();
      std::string row = format("  {:<{}}  {:<{}}  {:<4}  {:<{}}  {}", line.stream, stream_width_,
                               line.name, name_width_, line.dtype, bare ? line.rest : line.operands,
                               operands_width, bare ? "" : line.rest);
      row = row.substr(0, row.find_last_not_of(' ') + 1);
      text +=
          row + line_comment(program_, program_.instructions[task.begin + i], recorders_) + "\n";
    }
    return text;
  }

 private:
  /// Longer operand lists push their attributes to the right instead of those of all lines.
  static constexpr std::size_t longest_aligned = 44;

  const Program& program_;
  std::vector<std::optional<StreamId>> recorders_;
  std::size_t name_width_ = 0, stream_width_ = 0;
};

}  // namespace

std::string to_text(const Program& program) {
  require_printable(program);
  std::string text = header_text(program) + buffers_text(program);
  Folder folder(program);
  const TaskPrinter printer(program);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    const auto folded = folder.fold(i);
    text += format("task {}{}\n", short_text(task), folded ? format(" = {}", *folded) : "");
    if (!folded) text += printer.print(task);
  }
  return text + "end\n";
}

std::string to_text(const Bundle& bundle) {
  std::string text = format("bundle of {} programs\n", bundle.programs.size());
  text += format("  persistent  {} bytes  # {}\n", bundle.persistent_bytes,
                 format_bytes(bundle.persistent_bytes));
  text += format("  transient   {} bytes  # {}\n", bundle.transient_bytes,
                 format_bytes(bundle.transient_bytes));
  for (const Program& program : bundle.programs) text += format("\n{}", to_text(program));
  return text;
}

namespace {

/// How far the peers of a rank lie from those of another one; nothing where they do not move alike.
std::optional<std::int64_t> distance(const Binding& from, const Binding& to) {
  if (from.of_class != to.of_class || from.peers.size() != to.peers.size()) return std::nullopt;
  if (from.peers.empty()) return 0;
  const auto moved = [&](std::size_t i) {
    return static_cast<std::int64_t>(to.peers[i].index()) -
           static_cast<std::int64_t>(from.peers[i].index());
  };
  for (std::size_t i = 1; i < from.peers.size(); ++i)
    if (moved(i) != moved(0)) return std::nullopt;
  return moved(0);
}

std::string bindings_text(const std::vector<Binding>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    std::optional<std::int64_t> step;
    while (last + 1 < ranks.size()) {
      const auto next = distance(ranks[last], ranks[last + 1]);
      if (!next || (step && next != step)) break;
      step = next;
      ++last;
    }
    text += format("ranks {}{} class {}", first, last > first ? format("..{}", last) : "",
                   ranks[first].of_class);
    if (!ranks[first].peers.empty()) text += format(" peers{}", ranks_text(ranks[first].peers));
    if (!ranks[first].peers.empty() && last > first) text += format(" by {}", *step);
    text += "\n";
    first = last + 1;
  }
  return text;
}

}  // namespace

std::string to_text(const Job& job) {
  std::string text =
      format("job text version {}\njob of {} ranks in {} classes\n{}", job_text_version,
             job.ranks.size(), job.classes.size(), bindings_text(job.ranks));
  for (std::size_t i = 0; i < job.classes.size(); ++i)
    text += format("\nclass {}\n{}", i, to_text(job.classes[i]));
  return text;
}

}  // namespace fourfold::program
