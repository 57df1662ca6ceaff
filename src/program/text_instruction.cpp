#include "program/text_instruction.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "op/blocks.h"

namespace fourfold::program {
namespace {

std::string_view reduction_text(op::Reduction reduction) {
  return reduction == op::Reduction::sum ? "sum" : "max";
}

/// The name of entry `index`, or "?7" where the table has no such entry.
template <class Table, class NameOf>
std::string entry_name(const Table& table, std::size_t index, NameOf&& name_of) {
  return index < table.size() ? std::string(name_of(table[index])) : format("?{}", index);
}

// --- writing

/// The field's name where the slice is a field of the step or result block that can be found by
/// name.
std::optional<std::string_view> block_field_name(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool is_step = buffer.role == BufferRole::step_block;
  if ((!is_step && buffer.role != BufferRole::result_block) || slice.rows != 1 ||
      slice.pitch_bytes != 0)
    return std::nullopt;
  for (std::size_t i = 0; i < slice.buffer.index(); ++i)
    if (program.buffers[i].role == buffer.role) return std::nullopt;
  const auto search = [&](const auto& fields) -> std::optional<std::string_view> {
    for (const op::BlockField& field : fields)
      if (static_cast<std::int64_t>(field.offset_bytes) == slice.offset_bytes &&
          size_bytes(field.dtype) == slice.row_bytes)
        return field.name;
    return std::nullopt;
  };
  const auto found = is_step ? search(op::step_fields) : search(op::result_fields);
  return found && !program.find_buffer(*found) ? found : std::nullopt;
}

class Writer {
 public:
  Writer(const Program& program, std::optional<std::int64_t> task_micro, EventStyle events)
      : program_(program), task_micro_(task_micro), events_(events) {}

  void field(std::string_view label, GroupId id) {
    append(label, entry_name(program_.groups, id.index(), [](const Group& g) { return g.name; }));
  }
  void field(std::string_view label, op::Reduction value) { append(label, reduction_text(value)); }
  void field(std::string_view label, InputId id) {
    append(label, entry_name(program_.inputs, id.index(), [](const Input& i) { return i.name; }));
  }
  void field(std::string_view label, Rank value) { append(label, format("{}", value.index())); }
  void field(std::string_view label, std::int64_t value) {
    const bool is_own = label == "micro" && value == task_micro_;
    append(label, is_own ? "micro" : format("{}", value));
  }
  void option(std::string_view label, std::int64_t value) {
    if (value != 0) field(label, value);
  }
  void field(std::string_view label, EventId value) {
    const auto id = static_cast<std::int64_t>(value.index());
    append(label,
           id >= events_.first_relative ? format("{:+}", id - events_.base) : format("{}", id));
  }
  void read(std::string_view, const Slice& slice) { reads_.push_back(slice_text(program_, slice)); }
  void write(std::string_view, const Slice& slice) {
    outputs_.push_back(slice_text(program_, slice));
  }
  void update(std::string_view, const Slice& slice) {
    outputs_.push_back(format("&{}", slice_text(program_, slice)));
  }
  void read(std::string_view label, const Slices& slices) {
    for (const Slice& slice : slices) read(label, slice);
  }
  void write(std::string_view label, const Slices& slices) {
    for (const Slice& slice : slices) write(label, slice);
  }
  void update(std::string_view label, const Slices& slices) {
    for (const Slice& slice : slices) update(label, slice);
  }

  void compute(const Compute& what) {
    const op::Operands operands = op::operands(what.op);
    for (std::size_t i = 0; i < what.slices.size(); ++i) {
      const op::Role role = i < operands.size() ? operands[i].role : op::Role::read;
      if (role == op::Role::read) read({}, what.slices[i]);
      if (role == op::Role::write) write({}, what.slices[i]);
      if (role == op::Role::update) update({}, what.slices[i]);
    }
    rest_ = op::attributes_text(what.op, task_micro_);
    if (what.workspace) append("workspace", slice_text(program_, *what.workspace));
    if (!what.implementation.empty()) append("by", what.implementation);
  }

  /// The operands; of a side that has more than `most`, the first one and how many follow.
  std::string operands(std::size_t most = std::numeric_limits<std::size_t>::max()) const {
    const std::string reads = joined(reads_, most);
    if (outputs_.empty()) return reads;
    return reads + (reads.empty() ? "-> " : " -> ") + joined(outputs_, most);
  }
  const std::string& rest() const { return rest_; }

 private:
  void append(std::string_view label, std::string_view value) {
    rest_ += format("{}{} {}", rest_.empty() ? "" : " ", label, value);
  }
  static std::string joined(const std::vector<std::string>& all, std::size_t most) {
    return all.size() <= most ? join(all, ", ") : format("{} and {} more", all[0], all.size() - 1);
  }

  const Program& program_;
  std::optional<std::int64_t> task_micro_;
  EventStyle events_;
  std::vector<std::string> reads_, outputs_;
  std::string rest_;
};

Writer written(const Program& program, const Instruction& instruction,
               std::optional<std::int64_t> task_micro, EventStyle events) {
  Writer writer(program, task_micro, events);
  std::visit(
      [&]<class Kind>(const Kind& what) {
        if constexpr (std::is_same_v<Kind, Compute>)
          writer.compute(what);
        else
          Kind::fields(what, writer);
      },
      instruction.what);
  return writer;
}

// --- reading

/// Words that each end in a comma but the last, without the commas.
std::vector<std::string_view> take_list(Words& words) {
  std::vector<std::string_view> list;
  bool more = true;
  while (more) {
    std::string_view word = words.next("an operand");
    more = word.back() == ',';
    if (more) word.remove_suffix(1);
    list.push_back(word);
  }
  return list;
}

Slice parse_slice_range(BufferId buffer, std::string_view text) {
  const std::size_t colon = text.find(':');
  if (text.empty() || text.back() != ']' || colon == std::string_view::npos)
    fail_text(text, "'OFFSET:BYTES]' or 'OFFSET:ROWSxBYTES/PITCH]'");
  Slice slice{buffer, parse_number(text.substr(0, colon), "an offset"), 1, 0, 0};
  text = text.substr(colon + 1, text.size() - colon - 2);
  if (const std::size_t times = text.find('x'); times != std::string_view::npos) {
    const std::size_t slash = text.find('/', times);
    if (slash == std::string_view::npos) fail_text(text, "'ROWSxBYTES/PITCH'");
    slice.rows = parse_number(text.substr(0, times), "a number of rows");
    slice.pitch_bytes = parse_number(text.substr(slash + 1), "a pitch");
    text = text.substr(times + 1, slash - times - 1);
  }
  slice.row_bytes = parse_number(text, "a number of bytes");
  return slice;
}

Slice parse_slice(std::string_view text, const ReadContext& context) {
  const std::size_t open = text.find('[');
  const auto found = context.names.buffers.find(text.substr(0, open));
  if (found != context.names.buffers.end()) {
    if (open != std::string_view::npos)
      return parse_slice_range(found->second, text.substr(open + 1));
    return context.program.whole(found->second);
  }
  const auto field = op::find_block_field(text);
  if (!field) fail_text(text, "the name of a buffer or of a block's field");
  const bool is_step = text.starts_with("step.");
  const auto& block = is_step ? context.names.step_block : context.names.result_block;
  if (!block) fail_text(text, "a program that has this block");
  return {*block, static_cast<std::int64_t>(field->offset_bytes), 1, size_bytes(field->dtype), 0};
}

Slice parse_output(std::string_view text, bool is_update, const ReadContext& context) {
  if (is_update && !text.starts_with('&')) fail_text(text, "'&' before an updated operand");
  return parse_slice(is_update ? text.substr(1) : text, context);
}

/// The operands before and after the arrow, in order of use.
struct OperandWords {
  std::vector<std::string_view> reads, outputs;
};

OperandWords take_operands(Words& words, bool any_reads, bool any_outputs) {
  OperandWords operands;
  if (any_reads) operands.reads = take_list(words);
  if (any_outputs) {
    words.expect("->");
    operands.outputs = take_list(words);
  }
  return operands;
}

/// How many operands a kind has on either side of the arrow; at least so many where it takes lists.
struct CountOperands {
  std::size_t reads = 0, outputs = 0;
  bool takes_lists = false;
  template <class T>
  void field(std::string_view, const T&) {}
  void option(std::string_view, std::int64_t) {}
  template <class T>
  void read(std::string_view, const T&) {
    ++reads;
    takes_lists = std::is_same_v<T, Slices>;
  }
  template <class T>
  void write(std::string_view, const T&) {
    ++outputs;
    takes_lists = std::is_same_v<T, Slices>;
  }
  template <class T>
  void update(std::string_view label, const T& slices) {
    write(label, slices);
  }
};

void check_counts(const OperandWords& operands, std::size_t reads, std::size_t outputs) {
  if (operands.reads.size() != reads)
    fail_text(format("{} operands before ->", operands.reads.size()), format("{}", reads));
  if (operands.outputs.size() != outputs)
    fail_text(format("{} operands after ->", operands.outputs.size()), format("{}", outputs));
}

class FieldReader {
 public:
  FieldReader(const OperandWords& operands, Words& words, const ReadContext& context)
      : operands_(operands), words_(words), context_(context) {}

  void field(std::string_view label, GroupId& id) {
    const std::string_view word = labelled(label);
    const auto found = context_.names.groups.find(word);
    if (found == context_.names.groups.end()) fail_text(word, "the name of a group");
    id = found->second;
  }
  void field(std::string_view label, op::Reduction& value) {
    const std::string_view word = labelled(label);
    if (word != "sum" && word != "max") fail_text(word, "sum or max");
    value = word == "sum" ? op::Reduction::sum : op::Reduction::max;
  }
  void field(std::string_view label, InputId& id) {
    const std::string_view word = labelled(label);
    const auto found = context_.names.inputs.find(word);
    if (found == context_.names.inputs.end()) fail_text(word, "the name of an input");
    id = found->second;
  }
  void field(std::string_view label, Rank& value) {
    value = Rank(parse_index(labelled(label), std::numeric_limits<std::int32_t>::max(), "a rank"));
  }
  void field(std::string_view label, std::int64_t& value) {
    const std::string_view word = labelled(label);
    const bool is_own = label == "micro" && word == "micro" && context_.task_micro;
    value = is_own ? *context_.task_micro : parse_number(word, format("a number for {}", label));
  }
  void option(std::string_view label, std::int64_t& value) {
    if (!words_.done() && words_.peek() == label) field(label, value);
  }
  void field(std::string_view label, EventId& value) {
    const std::size_t events = context_.program.num_events;
    const std::size_t index = parse_index(labelled(label), events, "an event");
    const auto id = static_cast<std::int64_t>(index);
    const std::int64_t moved = id >= context_.shift.first ? id + context_.shift.by : id;
    if (moved < 0 || static_cast<std::size_t>(moved) >= events)
      fail_text(format("event {:+}", moved), format("an event below {}", events));
    value = EventId(static_cast<std::size_t>(moved));
  }
  void read(std::string_view, Slice& slice) {
    slice = parse_slice(operands_.reads[next_read_++], context_);
  }
  void write(std::string_view, Slice& slice) {
    slice = parse_output(operands_.outputs[next_output_++], false, context_);
  }
  void update(std::string_view, Slice& slice) {
    slice = parse_output(operands_.outputs[next_output_++], true, context_);
  }
  // A list takes all there is on its side.
  void read(std::string_view, Slices& list) {
    for (const std::string_view word : operands_.reads) list.push_back(parse_slice(word, context_));
  }
  void write(std::string_view, Slices& list) { take_outputs(list, false); }
  void update(std::string_view, Slices& list) { take_outputs(list, true); }

 private:
  void take_outputs(Slices& list, bool is_update) {
    for (const std::string_view word : operands_.outputs)
      list.push_back(parse_output(word, is_update, context_));
  }

  std::string_view labelled(std::string_view label) {
    words_.expect(label);
    return words_.next(label);
  }

  const OperandWords& operands_;
  Words& words_;
  const ReadContext& context_;
  std::size_t next_read_ = 0, next_output_ = 0;
};

template <class Kind>
Kind parse_kind(Words& words, const ReadContext& context) {
  Kind what;
  CountOperands count;
  Kind::fields(what, count);
  const OperandWords operands = take_operands(words, count.reads > 0, count.outputs > 0);
  if (!count.takes_lists)
    check_counts(operands, count.reads, count.outputs);
  else if (count.reads > 0)
    check_counts(operands, operands.reads.size(), operands.reads.size());
  FieldReader reader(operands, words, context);
  Kind::fields(what, reader);
  words.finish();
  return what;
}

/// Reads the line as the kind of that name; false where no kind but Compute has it.
template <std::size_t Index = 0>
bool parse_named_kind(std::string_view name, Words& words, const ReadContext& context, What& what) {
  if constexpr (Index < std::variant_size_v<AnyKind>) {
    using Kind = std::variant_alternative_t<Index, AnyKind>;
    if constexpr (AnyCollective<Kind>) {
      const std::optional<Collective> kind = find_collective(name);
      if (kind && facts_of(*kind).plain == Kind::plain) {
        Kind collective = parse_kind<Kind>(words, context);
        collective.kind = *kind;
        what = std::move(collective);
        return true;
      }
    } else if constexpr (!std::is_same_v<Kind, Compute>) {
      if (Kind::name == name) {
        what = parse_kind<Kind>(words, context);
        return true;
      }
    }
    return parse_named_kind<Index + 1>(name, words, context, what);
  } else {
    return false;
  }
}

/// Splits "k 3 workspace w by onednn" into its three parts.
void parse_compute_rest(std::string_view rest, std::string_view name, const ReadContext& context,
                        Compute& what) {
  std::string attributes;
  Words words(rest);
  while (!words.done() && words.peek() != "workspace" && words.peek() != "by")
    attributes += format("{}{}", attributes.empty() ? "" : " ", words.next("an attribute"));
  if (words.accept("workspace")) what.workspace = parse_slice(words.next("a workspace"), context);
  if (words.accept("by")) what.implementation = words.name("the name of an implementation");
  words.finish();
  what.op = op::parse_op(name, attributes, context.task_micro);
}

Compute parse_compute(std::string_view name, Words& words, const ReadContext& context) {
  Compute what;
  const std::string_view dtype = words.next("a dtype");
  const auto parsed = parse_dtype(dtype);
  if (!parsed) fail_text(dtype, "a dtype");
  what.dtype = *parsed;
  const OperandWords operands = take_operands(words, words.peek() != "->", true);
  parse_compute_rest(words.take_rest(), name, context, what);

  const op::Operands wanted = op::operands(what.op);
  const auto is_read = [](const op::Operand& operand) { return operand.role == op::Role::read; };
  const auto reads = static_cast<std::size_t>(std::count_if(wanted.begin(), wanted.end(), is_read));
  check_counts(operands, reads, wanted.size() - reads);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    what.slices.push_back(i < reads ? parse_slice(operands.reads[i], context)
                                    : parse_output(operands.outputs[i - reads],
                                                   wanted[i].role == op::Role::update, context));
  return what;
}

}  // namespace

std::string slice_text(const Program& program, const Slice& slice) {
  if (slice.buffer.index() >= program.buffers.size())
    return format("?{}[{}:{}x{}/{}]", slice.buffer.index(), slice.offset_bytes, slice.rows,
                  slice.row_bytes, slice.pitch_bytes);
  const std::string& name = program.buffer(slice.buffer).name;
  if (slice == program.whole(slice.buffer)) return name;
  if (const auto field = block_field_name(program, slice)) return std::string(*field);
  if (slice.rows == 1 && slice.pitch_bytes == 0)
    return format("{}[{}:{}]", name, slice.offset_bytes, slice.row_bytes);
  return format("{}[{}:{}x{}/{}]", name, slice.offset_bytes, slice.rows, slice.row_bytes,
                slice.pitch_bytes);
}

InstructionColumns instruction_columns(const Program& program, const Instruction& instruction,
                                       std::optional<std::int64_t> task_micro, EventStyle events) {
  const Writer writer = written(program, instruction, task_micro, events);
  const auto* compute = std::get_if<Compute>(&instruction.what);
  return {entry_name(program.streams, instruction.stream.index(),
                     [](const std::string& stream) { return stream; }),
          std::string(name(instruction)),
          compute == nullptr ? std::string() : std::string(fourfold::to_string(compute->dtype)),
          writer.operands(), writer.rest()};
}

std::string short_text(const Program& program, const Instruction& instruction) {
  const Writer writer = written(program, instruction, std::nullopt, {});
  constexpr std::size_t most_operands = 8;  // a row has fewer, a list of tensors many more
  std::string text(name(instruction));
  if (const std::string operands = writer.operands(most_operands); !operands.empty())
    text += format(" {}", operands);
  if (!std::holds_alternative<Compute>(instruction.what) && !writer.rest().empty())
    text += format(" {}", writer.rest());
  return text;
}

std::string short_text(const Task& task) {
  return task.micro ? format("{}({})", to_string(task.kind), *task.micro)
                    : std::string(to_string(task.kind));
}

NameTable name_table(const Program& program) {
  NameTable table;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    table.buffers.emplace(buffer.name, i);
    if (buffer.role == BufferRole::step_block && !table.step_block) table.step_block = BufferId(i);
    if (buffer.role == BufferRole::result_block && !table.result_block)
      table.result_block = BufferId(i);
  }
  for (std::size_t i = 0; i < program.groups.size(); ++i)
    table.groups.emplace(program.groups[i].name, i);
  for (std::size_t i = 0; i < program.streams.size(); ++i)
    table.streams.emplace(program.streams[i], i);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    table.inputs.emplace(program.inputs[i].name, i);
  return table;
}

Instruction parse_instruction(std::string_view line, const ReadContext& context) {
  Words words(line);
  const std::string_view stream = words.next("a stream");
  const auto found = context.names.streams.find(stream);
  if (found == context.names.streams.end())
    fail_text(stream, "'task', 'end' or the name of a stream");
  Instruction instruction{found->second, {}};
  const std::string_view name = words.next("the name of an instruction");
  if (!parse_named_kind(name, words, context, instruction.what))
    instruction.what = parse_compute(name, words, context);
  return instruction;
}

}  // namespace fourfold::program
