// Text to programs: the frame around the lines of text_instruction.h.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "program/text.h"
#include "program/text_instruction.h"

namespace fourfold::program {
namespace {

constexpr std::size_t largest_id = std::numeric_limits<std::int32_t>::max();

/// The enumerator of that name, going through `last` in order.
template <class Enum>
Enum parse_enum(std::string_view text, Enum last, std::string_view expected) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (to_string(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  fail_text(text, expected);
}

template <class Table, class NameOf>
std::size_t find_named(const Table& table, std::string_view name, NameOf&& name_of,
                       std::string_view expected) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (name_of(table[i]) == name) return i;
  fail_text(name, expected);
}

std::size_t find_mesh(const Program& program, std::string_view name) {
  return find_named(
      program.meshes, name, [](const Mesh& m) { return m.name; }, "the name of a mesh");
}

// --- header

DType parse_element(std::string_view word, std::string_view expected) {
  const auto dtype = parse_dtype(word);
  if (!dtype) fail_text(word, expected);
  return *dtype;
}

op::ProgramKind parse_kind(Words& words) {
  const std::string expected = format("one of the programs {}", op::list_program_kinds());
  const std::string_view word = words.next(expected);
  const auto kind = op::parse_program_kind(word);
  if (!kind) fail_text(word, expected);
  return *kind;
}

/// "0..3 8 10".
template <class List = Ranks>
List parse_ranks(Words& words) {
  List ranks;
  while (!words.done()) {
    const std::string_view word = words.next("a rank");
    const std::size_t dots = word.find("..");
    const std::size_t first = parse_index(word.substr(0, dots), largest_id, "a rank");
    std::size_t last = first;
    if (dots != std::string_view::npos)
      last = parse_index(word.substr(dots + 2), largest_id, "a rank");
    constexpr std::size_t most_ranks = std::size_t{1} << 24;  // guards memory against hostile text
    if (last < first || last - first + ranks.size() >= most_ranks)
      fail_text(word, "FIRST..LAST, no more than 2^24 ranks");
    for (std::size_t rank = first; rank <= last; ++rank) ranks.push_back(Rank(rank));
  }
  return ranks;
}

/// "[data 2, z 1]".
std::vector<Axis> parse_axes(std::string_view bracketed) {
  std::vector<Axis> axes;
  Words words(bracketed.substr(1, bracketed.size() - 2));
  bool more = !words.done();
  while (more) {
    Axis axis{std::string(words.name("the name of an axis")), 1};
    std::string_view size = words.next("the size of an axis");
    more = size.back() == ',';
    if (more) size.remove_suffix(1);
    axis.size = parse_number(size, "the size of an axis");
    if (axis.size < 1) fail_text(size, "an axis size of at least 1");
    for (const Axis& other : axes)
      if (other.name == axis.name) fail_text(axis.name, "axes of different names");
    axes.push_back(axis);
  }
  words.finish();
  return axes;
}

void parse_mesh(Words& words, Program& program) {
  Mesh mesh{std::string(words.name("the name of a mesh")), {}, {}};
  for (const Mesh& other : program.meshes)
    if (other.name == mesh.name) fail_text(mesh.name, "meshes of different names");
  mesh.axes = parse_axes(words.bracketed("the axes of a mesh in brackets"));
  words.expect("ranks");
  mesh.ranks = parse_ranks(words);
  program.meshes.push_back(mesh);
}

void parse_group(Words& words, Program& program) {
  Group group{std::string(words.name("the name of a group")), {}, {}, {}};
  for (const Group& other : program.groups)
    if (other.name == group.name) fail_text(group.name, "groups of different names");
  words.expect("mesh");
  group.mesh = MeshId(find_mesh(program, words.next("the name of a mesh")));
  words.expect("along");
  const auto axis_name = [](const Axis& axis) { return axis.name; };
  bool more = true;
  while (more) {
    std::string_view word = words.next("the name of an axis");
    more = word.back() == ',';
    if (more) word.remove_suffix(1);
    const AxisId axis(find_named(program.meshes[group.mesh.index()].axes, word, axis_name,
                                 "the name of an axis of the mesh"));
    if (std::ranges::find(group.axes, axis) != group.axes.end())
      fail_text(word, "axes that are named once");
    group.axes.push_back(axis);
  }
  words.expect("ranks");
  group.members = parse_ranks(words);
  program.groups.push_back(group);
}

void parse_stream(Words& words, Program& program) {
  const std::string name(words.name("the name of a stream"));
  if (name == "task" || name == "end") fail_text(name, "a stream not named 'task' or 'end'");
  for (const std::string& other : program.streams)
    if (other == name) fail_text(name, "streams of different names");
  program.streams.push_back(name);
}

void parse_input(Words& words, Program& program) {
  Input input{std::string(words.name("the name of an input")), DType::i32, {}};
  for (const Input& other : program.inputs)
    if (other.name == input.name) fail_text(input.name, "inputs of different names");
  input.dtype = parse_element(words.next("an element type"), "an element type such as i32");
  const std::string_view dims = words.bracketed("the shape of a sample in brackets");
  const auto shape = parse_shape(dims);
  if (!shape) fail_text(dims, "the shape of a sample, such as [64]");
  input.sample_shape = *shape;
  program.inputs.push_back(std::move(input));
}

Feeds parse_feeds(Words& words) {
  Feeds feeds;
  const auto number = [&](std::string_view key, std::int64_t& value) {
    words.expect(key);
    value = words.number(format("a number of {}", key));
  };
  number("micros", feeds.micros);
  number("samples", feeds.samples);
  number("first", feeds.first);
  number("count", feeds.count);
  if (!words.done()) number("chunks", feeds.chunks);
  return feeds;
}

// --- frame

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : lines_(text), file_name_(file_name) {}

  Program program() {
    return located([&] { return read_program(); });
  }
  Bundle bundle() {
    return located([&] { return read_bundle(); });
  }
  Job job() {
    return located([&] { return read_job(); });
  }
  void finish() {
    located([&] {
      if (const auto line = lines_.peek(); !line.empty()) fail_text(line, "the end of the text");
      return 0;
    });
  }

 private:
  /// Adds file and line to errors.
  template <class Read>
  auto located(Read&& read) -> decltype(read()) {
    try {
      return read();
    } catch (const UserError& error) {
      throw UserError(ExitCode::bad_config,
                      format("{}:{}: {}", file_name_, lines_.number(), error.what()));
    }
  }

  /// The words of the next line, which starts with `key`.
  Words keyed(std::string_view key) {
    Words words(lines_.next(format("'{}'", key)));
    words.expect(key);
    return words;
  }
  bool next_is(std::string_view key) { return Words(lines_.peek()).peek() == key; }
  std::int64_t region_bytes(std::string_view key) {
    Words words = keyed(key);
    const std::int64_t bytes = words.number("a number of bytes");
    words.expect("bytes");
    words.finish();
    return bytes;
  }
  /// All lines that start with `key`, each read by `parse` to its end.
  template <class Parse>
  void all_keyed(std::string_view key, Program& program, Parse&& parse) {
    while (next_is(key)) {
      Words words = keyed(key);
      parse(words, program);
      words.finish();
    }
  }

  void read_header(Program& program) {
    Words title = keyed("program");
    program.kind = parse_kind(title);
    title.finish();
    Words rank = keyed("rank");
    program.rank = Rank(parse_index(rank.next("a rank"), largest_id, "a rank"));
    rank.expect("of");
    program.world = rank.number("a number of ranks");
    rank.finish();
    program.persistent_bytes = region_bytes("persistent");
    program.transient_bytes = region_bytes("transient");
    all_keyed("mesh", program, parse_mesh);
    all_keyed("group", program, parse_group);
    all_keyed("stream", program, parse_stream);
    all_keyed("input", program, parse_input);
    Words feeds = keyed("feeds");
    program.feeds = parse_feeds(feeds);
    feeds.finish();
    if (next_is("reduce")) {
      Words reduce = keyed("reduce");
      program.reduce =
          parse_element(reduce.next("an element type"), "an element type such as bf16");
      reduce.finish();
    }
    Words events = keyed("events");
    program.num_events =
        parse_index(events.next("a number of events"), largest_id, "a number of events");
    events.finish();
  }

  static void read_partial(Words& words, const Mesh& mesh, op::Sharding& sharding) {
    while (words.accept("partial")) {
      const std::string_view word = words.next("sum(AXIS) or max(AXIS)");
      const bool is_sum = word.starts_with("sum(");
      if ((!is_sum && !word.starts_with("max(")) || word.back() != ')')
        fail_text(word, "sum(AXIS) or max(AXIS)");
      const auto axis = find_named(
          mesh.axes, word.substr(4, word.size() - 5), [](const Axis& a) { return a.name; },
          "the name of an axis");
      sharding.partial.push_back({AxisId(axis), is_sum ? op::Reduction::sum : op::Reduction::max});
    }
  }

  static Buffer read_buffer(Words words, const Program& program) {
    Buffer buffer;
    buffer.name = words.name("the name of a buffer");
    buffer.dtype = parse_element(words.next("a dtype"), "a dtype");
    if (program.meshes.empty()) fail_text(buffer.name, "a mesh before the first buffer");
    const MeshId mesh_id(words.accept("on") ? find_mesh(program, words.next("the name of a mesh"))
                                            : 0);
    const Mesh& mesh = program.meshes[mesh_id.index()];
    const std::string_view shape = words.bracketed("a shape in brackets");
    const auto parsed_shape = op::parse_sharded_shape(shape, mesh_id, mesh);
    if (!parsed_shape) fail_text(shape, "a shape with axes of its mesh, as [12 (data,z), 64]");
    buffer.global = parsed_shape->shape;
    buffer.sharding = parsed_shape->sharding;
    read_partial(words, mesh, buffer.sharding);
    if (words.accept("blocked")) {
      const std::size_t dim =
          parse_index(words.next("a dim"), buffer.global.rank(), "a dim of the buffer");
      const auto axis = find_named(
          mesh.axes, words.next("the name of an axis"), [](const Axis& a) { return a.name; },
          "the name of an axis");
      buffer.blocked = Blocked{dim, AxisId(axis), words.number("elements of a part")};
    }
    const std::string_view region = words.next("persistent or transient");
    if (region != "persistent" && region != "transient")
      fail_text(region, "persistent or transient");
    buffer.region = region == "persistent" ? Region::persistent : Region::transient;
    words.expect("@");
    buffer.offset_bytes = words.number("an offset");
    buffer.size_bytes = words.number("a number of bytes");
    words.expect("bytes");
    buffer.role = parse_enum(words.next("a role"), BufferRole::output, "the role of a buffer");
    if (words.accept("label")) buffer.label = words.name("a label");
    buffer.two_by_parity = words.accept("x2");
    if (buffer.two_by_parity) {
      words.expect("by");
      words.expect("parity");
    }
    words.finish();
    return buffer;
  }

  void read_buffers(Program& program) {
    Words title = keyed("buffers");
    const std::size_t count =
        parse_index(title.next("a number of buffers"), largest_id, "a number of buffers");
    title.finish();
    std::unordered_set<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      program.buffers.push_back(read_buffer(Words(lines_.next("a buffer")), program));
      const std::string& name = program.buffers.back().name;
      if (!names.insert(name).second) fail_text(name, "buffers of different names");
    }
  }

  static Task read_label(std::string_view label) {
    Task task;
    const std::size_t open = label.find('(');
    if (open != std::string_view::npos) {
      if (label.back() != ')') fail_text(label, "KIND or KIND(MICRO)");
      task.micro = parse_number(label.substr(open + 1, label.size() - open - 2), "a micro-batch");
    }
    task.kind = parse_enum(label.substr(0, open), TaskKind::digest, "the kind of a task");
    return task;
  }

  /// A task that was printed, to be read again for another micro-batch.
  struct Printed {
    std::vector<std::string_view> lines;
    std::int64_t first_recorded = std::numeric_limits<std::int64_t>::max();
  };

  static EventShift read_shift(Words& words, const Printed& printed) {
    EventShift shift;
    const bool is_own = words.accept("own");
    words.expect("events");
    shift.first = is_own ? printed.first_recorded : 0;
    std::string_view by = words.next("a shift of events, as +7");
    if (by.starts_with('+')) by.remove_prefix(1);
    shift.by = parse_number(by, "a shift of events, as +7");
    if (shift.by > static_cast<std::int64_t>(largest_id) ||
        -shift.by > static_cast<std::int64_t>(largest_id))
      fail_text(by, "a shift of events below 2^31");
    return shift;
  }

  void read_folded(Words& words, const ReadContext& context, Program& program) {
    std::string_view label = words.next("a task");
    const bool has_shift = label.back() == ',';
    if (has_shift) label.remove_suffix(1);
    const auto found = printed_.find(label);
    if (found == printed_.end()) fail_text(label, "an earlier task that is printed in full");
    ReadContext shifted = context;
    if (has_shift) shifted.shift = read_shift(words, found->second);
    constexpr std::size_t most_instructions = 10'000'000;  // guards memory against hostile text
    if (program.instructions.size() + found->second.lines.size() > most_instructions)
      fail_text(label, "a program of no more than 10^7 instructions");
    for (const std::string_view line : found->second.lines)
      program.instructions.push_back(parse_instruction(line, shifted));
  }

  void read_printed(std::string_view label, const ReadContext& context, Program& program) {
    Printed printed;
    while (!next_is("task") && !next_is("end")) {
      printed.lines.push_back(lines_.next("an instruction, 'task' or 'end'"));
      program.instructions.push_back(parse_instruction(printed.lines.back(), context));
      if (const auto* record = std::get_if<Record>(&program.instructions.back().what))
        printed.first_recorded =
            std::min(printed.first_recorded, static_cast<std::int64_t>(record->event.index()));
    }
    printed_[std::string(label)] = std::move(printed);
  }

  void read_task(const NameTable& names, Program& program) {
    Words words = keyed("task");
    const std::string_view label = words.next("a task");
    Task task = read_label(label);
    task.begin = program.instructions.size();
    const ReadContext context{program, names, task.micro, {}};
    if (words.accept("=")) {
      read_folded(words, context, program);
      printed_.erase(std::string(label));
      words.finish();
    } else {
      words.finish();
      read_printed(label, context, program);
    }
    task.end = program.instructions.size();
    program.tasks.push_back(task);
  }

  Program read_program() {
    Program program;
    read_header(program);
    read_buffers(program);
    const NameTable names = name_table(program);
    printed_.clear();
    while (next_is("task")) read_task(names, program);
    keyed("end").finish();
    return program;
  }

  Bundle read_bundle() {
    Bundle bundle;
    Words title = keyed("bundle");
    title.expect("of");
    const std::size_t count =
        parse_index(title.next("a number of programs"), largest_id, "a number of programs");
    title.expect("programs");
    title.finish();
    bundle.persistent_bytes = region_bytes("persistent");
    bundle.transient_bytes = region_bytes("transient");
    for (std::size_t i = 0; i < count; ++i) bundle.programs.push_back(read_program());
    return bundle;
  }

  /// "ranks 4..7 class 1 peers 0 2 by 1".
  void read_bindings(std::size_t num_classes, Job& job) {
    Words words = keyed("ranks");
    const std::string_view range = words.next("a range of ranks");
    Words of_range(range);
    const Ranks ranks = parse_ranks(of_range);
    if (ranks.front().index() != job.ranks.size())
      fail_text(range, format("rank {} next", job.ranks.size()));
    constexpr std::size_t most_ranks = std::size_t{1} << 20;  // guards memory against hostile text
    if (job.ranks.size() + ranks.size() > most_ranks) fail_text(range, "no more than 2^20 ranks");
    words.expect("class");
    Binding binding;
    binding.of_class = static_cast<std::uint32_t>(
        parse_index(words.next("the number of a class"), num_classes, "the number of a class"));
    if (words.accept("peers"))
      while (!words.done() && words.peek() != "by")
        for (const Rank peer : parse_peers(words)) binding.peers.push_back(peer);
    std::int64_t step = 0;
    if (words.accept("by")) step = words.number("how far the peers move from rank to rank");
    words.finish();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      job.ranks.push_back(binding);
      for (Rank& peer : binding.peers) peer = moved(peer, step);
    }
  }
  /// One word of a list of ranks.
  static std::vector<Rank> parse_peers(Words& words) {
    Words word(words.next("a rank"));
    return parse_ranks<std::vector<Rank>>(word);
  }
  /// Ranks that cannot be are left to the verifier, which names them.
  static Rank moved(Rank rank, std::int64_t step) {
    const auto most = static_cast<std::int64_t>(largest_id);
    const std::int64_t to = static_cast<std::int64_t>(rank.index()) + std::clamp(step, -most, most);
    return Rank(static_cast<std::size_t>(std::clamp<std::int64_t>(to, 0, most)));
  }

  /// A text without a version was written before there was one.
  void read_version() {
    const std::string expected = format(
        "'job text version {}': print the job again, with `fourfold program CONFIG --job` "
        "of this build",
        job_text_version);
    Words title = keyed("job");
    const std::string_view word = title.next(expected);
    if (word != "text") fail_text(word, expected);
    title.expect("version");
    const std::string_view version = title.next(expected);
    if (version != format("{}", job_text_version)) fail_text(version, expected);
    title.finish();
  }

  Job read_job() {
    Job job;
    read_version();
    Words title = keyed("job");
    title.expect("of");
    const std::size_t world =
        parse_index(title.next("a number of ranks"), largest_id, "a number of ranks");
    title.expect("ranks");
    title.expect("in");
    const std::size_t num_classes =
        parse_index(title.next("a number of classes"), largest_id, "a number of classes");
    title.expect("classes");
    title.finish();
    while (job.ranks.size() < world) read_bindings(num_classes, job);
    if (job.ranks.size() > world)
      fail_text(format("ranks up to {}", job.ranks.size() - 1), format("{} ranks", world));
    for (std::size_t i = 0; i < num_classes; ++i) {
      Words number = keyed("class");
      const std::string_view word = number.next("the number of a class");
      if (parse_index(word, num_classes, "the number of a class") != i)
        fail_text(word, format("class {}", i));
      number.finish();
      job.classes.push_back(read_bundle());
    }
    return job;
  }

  Lines lines_;
  std::string file_name_;
  std::map<std::string, Printed, std::less<>> printed_;
};

}  // namespace

Program parse_program(std::string_view text, std::string_view file_name) {
  Reader reader(text, file_name);
  Program program = reader.program();
  reader.finish();
  return program;
}

Bundle parse_bundle(std::string_view text, std::string_view file_name) {
  Reader reader(text, file_name);
  Bundle bundle = reader.bundle();
  reader.finish();
  return bundle;
}

Job parse_job(std::string_view text, std::string_view file_name) {
  Reader reader(text, file_name);
  Job job = reader.job();
  reader.finish();
  return job;
}

}  // namespace fourfold::program
