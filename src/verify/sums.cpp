// sum: whether every sum has its full number of contributions when somebody takes it as a whole.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/format.h"
#include "base/interval_map.h"
#include "base/number_set.h"
#include "op/blocks.h"
#include "program/text.h"
#include "program/text_instruction.h"
#include "verify/box.h"
#include "verify/content.h"
#include "verify/rules.h"
#include "verify/values.h"

namespace fourfold::verify {
namespace {

constexpr std::size_t most_sum_faults = 16;  // of a program, by this rule

/// A chunk of a micro-batch, or all of one that has no chunks.
struct Batch {
  std::int64_t micro = 0, chunk = 0;
  auto operator<=>(const Batch&) const = default;
};

/// Numbers of the micro-batches that a program has tasks for; where they are fed in chunks, each
/// chunk counts as a micro-batch of its own.
std::map<Batch, std::size_t> micros_of(const Program& program) {
  std::map<Batch, std::size_t> micros;
  for (const Task& task : program.tasks)
    if (task.micro) micros.try_emplace({*task.micro, 0}, 0);
  for (const Instruction& instruction : program.instructions)
    if (const auto* feed = std::get_if<Feed>(&instruction.what);
        feed != nullptr && micros.contains({feed->micro, 0}))
      micros.try_emplace({feed->micro, feed->chunk}, 0);
  std::size_t count = 0;
  for (auto& [micro, index] : micros) index = count++;
  return micros;
}

class SumCheck {
 public:
  SumCheck(const Program& program, Report& report)
      : program_(program),
        report_(report),
        micros_(micros_of(program)),
        claims_(program),
        contents_(micros_.size()),
        bytes_(Held{}) {
    values_.computed.resize(program.streams.size());
    count_messages();
  }

  void run() {
    if (micros_.empty()) return;
    walk();
    check_results();
    check_updates();
  }

  Values values() {
    walk();
    for (const auto& [batch, index] : micros_) values_.num_micros += batch.chunk == 0 ? 1 : 0;
    return std::move(values_);
  }

 private:
  void walk() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role != BufferRole::result_block) begin(BufferId(i));
    for (const Task& task : program_.tasks) {
      task_ = &task;
      micro_ = task.micro ? number({*task.micro, 0}) : std::nullopt;
      const std::uint64_t times = tasks_[{task.kind, task.micro}]++;
      task_hash_ = mixed(mixed(3, static_cast<std::uint64_t>(task.kind)), micro_ ? 0 : times);
      received_in_task_.clear();
      under_way_.clear();
      const std::size_t end = std::min(task.end, program_.instructions.size());
      for (index_ = task.begin; index_ < end; ++index_)
        std::visit([&](const auto& what) { step(what); }, program_.instructions[index_].what);
    }
  }

  /// What has become of a value since a row made it: nothing, or it was rounded and only moved
  /// since, by collectives too. Such a value may lead back to the type of sums.
  enum class Way : std::uint8_t { none, rounded, carried };
  /// What bytes hold.
  struct Held {
    ValueId value = Contents::zero();
    std::uint32_t writer = 0;    // instruction
    std::uint32_t received = 0;  // number of the value that came with messages, from 1; or 0
    Way way = Way::none;
    std::int64_t begin =
        0;  // address of the slice that was written, or the tensor that is received

    /// Nothing has been written, or zero.
    bool is_blank() const { return value == Contents::zero() && received == 0; }
    bool is_same(const Held& other) const {
      return value == other.value && begin == other.begin && way == other.way &&
             received == other.received;
    }
  };
  /// What a slice holds: all of what was written, or a part.
  struct Found {
    ValueId value = Contents::zero();
    std::int64_t offset = 0;  // from the begin of what was written
    Way way = Way::none;
    std::uint32_t received = 0;
  };
  /// What is known of a kind of contribution: who makes it first, and from which kinds of values.
  struct Contribution {
    std::size_t index = 0;  // instruction
    std::vector<std::uint64_t> reads;
  };
  struct Update {
    std::size_t index = 0;  // instruction
    BufferId weight;
    ValueId gradient;
    ValueId found;  // its term of the number of elements that are not finite
  };
  /// The micro-batch of what an instruction reads, and the value that says so.
  struct Meeting {
    std::optional<std::size_t> micro;
    ValueId by;
  };
  /// A total over all gradients, or all updates, that an instruction reads.
  struct Total {
    std::size_t index = 0;
    ValueId value;
    bool of_gradients = false;  // else of updates
  };

  void fault(std::size_t index, std::string_view message) {
    if (++faults_ <= most_sum_faults) report_.fault("sum", index, message);
  }
  std::string name_of(const Slice& slice) const { return slice_text(program_, slice); }
  std::optional<std::size_t> number(const Batch& micro) const {
    const auto found = micros_.find(micro);
    return found == micros_.end() ? std::nullopt : std::optional(found->second);
  }
  /// "micro-batch 3", "chunk 1 of micro-batch 3".
  std::string micro_text(std::size_t index) const {
    const Batch& of = batch(index);
    const std::string micro = format("micro-batch {}", of.micro);
    return program_.feeds.chunks == 1 ? micro : format("chunk {} of {}", of.chunk, micro);
  }

  // --- what bytes hold. Of buffers that are two by parity, one copy is followed.

  std::int64_t begin_of(const Slice& slice) const {
    return address(program_, slice.buffer) + slice.offset_bytes;
  }
  template <class Visit>
  void for_each_row(const Slice& slice, Visit&& visit) const {
    const std::int64_t begin = begin_of(slice);
    if (slice.rows == 1 || slice.pitch_bytes == slice.row_bytes) {
      visit(begin, begin + slice.bytes());
      return;
    }
    for (std::int64_t row = 0; row < slice.rows; ++row)
      visit(begin + row * slice.pitch_bytes, begin + row * slice.pitch_bytes + slice.row_bytes);
  }
  void write(const Slice& slice, ValueId value, Way way = Way::none) {
    write(slice, Held{value, static_cast<std::uint32_t>(index_), 0, way, begin_of(slice)});
  }
  void write(const Slice& slice, const Held& held) {
    for_each_row(slice,
                 [&](std::int64_t begin, std::int64_t end) { bytes_.assign(begin, end, held); });
  }
  /// Calls visit(begin, end, held) with the addresses of what was written at once, row by row.
  template <class Visit>
  void for_each_run_of(const Slice& slice, Visit&& visit) const {
    for_each_row(slice, [&](std::int64_t begin, std::int64_t end) {
      std::optional<Held> held;
      std::int64_t from = begin;
      bytes_.visit_runs(begin, end, [&](std::int64_t start, const Held& next) {
        if (held) visit(from, start, *held);
        from = std::max(begin, start);
        held = next;
      });
      if (held) visit(from, end, *held);
    });
  }

  /// What the host or an earlier program leaves.
  void begin(BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.region != Region::persistent) return;
    // A rounded copy is the weight that it is made from (rule rounded).
    const auto weight = buffer.role == BufferRole::rounded
                            ? program_.find_buffer(rounded_name(buffer.name))
                            : std::nullopt;
    const BufferId source = weight.value_or(id);
    const std::uint64_t name = std::hash<std::string>()(program_.buffer(source).name);
    const ValueId value = contents_.one(mixed(1, name), 0, std::nullopt);
    if (program_.buffer(source).role == BufferRole::parameter) parameter_of_.emplace(value, source);
    const std::int64_t start = address(program_, id);
    bytes_.assign(start, start + buffer.size_bytes, Held{value, 0, 0, Way::none, start});
  }

  Found read(const Slice& slice) {
    std::optional<Held> first;
    bool differ = false;
    for_each_row(slice, [&](std::int64_t begin, std::int64_t end) {
      bytes_.visit(begin, end, [&](const Held& held) {
        if (!first) first = held;
        differ = differ || !held.is_same(*first);
      });
    });
    if (differ) return join(slice);
    return first ? found(slice, *first) : Found{};
  }
  Found found(const Slice& slice, const Held& held) const {
    return {held.value, begin_of(slice) - held.begin, held.way, held.received};
  }

  /// One value for what was written piece by piece; beside padding that is zero it may be one
  /// already.
  Found join(const Slice& slice) {
    check_boxes(slice);
    std::uint64_t kinds = 2;
    Meeting all;
    std::optional<Held> first;
    bool differ = false, has_padding = false;
    for_each_run_of(slice, [&](std::int64_t begin, std::int64_t end, const Held& held) {
      if (held.is_blank() && is_in_padding(slice.buffer, begin, end)) {
        has_padding = true;
        return;
      }
      if (!first) first = held;
      differ = differ || !held.is_same(*first);
      take(held.value, slice);
      meet(all, held.value, slice);
      kinds =
          mixed(mixed(kinds, kind_of(held)), static_cast<std::uint64_t>(begin - begin_of(slice)));
    });
    if (has_padding && first) values_.with_padding.push_back(slice.buffer);
    if (!first) return {};
    if (!differ) return found(slice, *first);
    return {contents_.one(kinds, kinds, all.micro), 0};
  }
  /// What was received outside of micro-batches adds nothing to sums, but it is something.
  std::uint64_t kind_of(const Held& held) const {
    return held.received != 0 ? values_.received[held.received - 1].name
                              : contents_.kind(held.value);
  }
  bool is_in_padding(BufferId id, std::int64_t begin, std::int64_t end) {
    const Buffer& buffer = program_.buffer(id);
    const std::int64_t start = address(program_, id);
    return !buffer.blocked && !is_block(buffer) &&
           is_padding(claims_, id, begin - start, end - start);
  }
  static bool is_block(const Buffer& buffer) {
    return buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block;
  }

  /// Whoever reads what came in several messages finds all of it: boxes of one value, which leave
  /// nothing out but padding.
  void check_boxes(const Slice& slice) {
    std::set<std::uint32_t> seen;
    std::optional<Held> blank;
    std::int64_t blank_at = 0;
    for_each_run_of(slice, [&](std::int64_t begin, std::int64_t end, const Held& held) {
      if (held.received != 0) seen.insert(held.received - 1);
      if (blank || !held.is_blank() || is_in_padding(slice.buffer, begin, end)) return;
      blank = held;
      blank_at = begin - address(program_, slice.buffer);
    });
    if (seen.empty()) return;
    const Received* before = nullptr;
    for (const std::uint32_t number : seen) {
      const Received& received = values_.received[number];
      if (before != nullptr && before->tag == received.tag)
        return fault(index_, format("{} holds boxes of two values: one came with {}, the other "
                                    "with {}",
                                    name_of(slice), recv_text(*before), recv_text(received)));
      before = &received;
    }
    if (blank)
      fault(
          index_,
          format("no message has brought what {} holds from byte {} of {} on; other boxes "
                 "of it came with {}",
                 name_of(slice), blank_at, program_.buffer(slice.buffer).name, recv_text(*before)));
  }
  std::string recv_text(const Received& received) const {
    return format("instruction {} ({})", received.instruction,
                  short_text(program_, program_.instructions[received.instruction]));
  }

  /// Somebody uses a value for more than adding it to another: a sum must be complete.
  void take(ValueId value, const Slice& slice) {
    const auto gap = contents_.complete(value);
    if (!gap) return;
    const std::uint64_t lacking = gap->kind, stray = 0 - gap->kind;
    if (const auto known = contributions_.find(lacking); known != contributions_.end())
      fault(index_, gap_text(slice, known->second.index, gap->lacks, gap->has));
    else if (const auto other = contributions_.find(stray); other != contributions_.end())
      fault(index_, gap_text(slice, other->second.index, gap->has, gap->lacks));
    else
      fault(index_, format("what {} and {} add to {} is not the same", micro_text(gap->lacks),
                           micro_text(gap->has), name_of(slice)));
  }
  std::string gap_text(const Slice& slice, std::size_t contribution, std::size_t lacks,
                       std::size_t has) const {
    return format(
        "the sum in {} is not complete: nothing adds for {} what it has of {}, as instruction {} "
        "({}) adds it",
        name_of(slice), micro_text(lacks), micro_text(has), contribution,
        short_text(program_, program_.instructions[contribution]));
  }

  /// Joins the micro-batches of what one instruction reads. What came from another mesh may be the
  /// same for all micro-batches, as weights are; then the sender must agree (rule matching).
  void meet(Meeting& all, ValueId value, const Slice& slice) {
    const auto micro = contents_.micro(value);
    if (!micro || all.micro == micro) return;
    if (!all.micro) {
      all = {micro, value};
    } else if (const auto message = received_.find(value); message != received_.end()) {
      values_.received[message->second].is_shared = true;
    } else if (const auto first = received_.find(all.by); first != received_.end()) {
      values_.received[first->second].is_shared = true;
      all = {micro, value};
    } else {
      fault(index_, format("it reads {} of {} together with what is of {}", name_of(slice),
                           micro_text(*micro), micro_text(*all.micro)));
    }
  }

  // --- instructions that move values

  void move(const Slice& from, const Slice& to) {
    const Found found = read(from);
    write(to, Held{found.value, static_cast<std::uint32_t>(index_), found.received, found.way,
                   begin_of(to)});
  }
  /// Rule state knows whether a collective may be where it is; what works in place changes no sum.
  template <Collective Kind>
  void step(const Kind& what) {
    for_each_tensor(what, [&](const Slice& from, const Slice& to) {
      if (from.buffer != to.buffer) move(from, to);
      for_each_row(to, [&](std::int64_t begin, std::int64_t end) {
        bytes_.change(begin, end, [](Held& held) {
          if (held.way == Way::rounded) held.way = Way::carried;
        });
      });
    });
  }
  void step(const Copy& what) {
    move(what.from, what.to);
    // Elsewhere in a tensor, boxes of it are no boxes of what was received.
    const Buffer &from = program_.buffer(what.from.buffer), &to = program_.buffer(what.to.buffer);
    Slice moved = what.from;
    moved.buffer = what.to.buffer;
    if (from.global == to.global && (from.size_bytes != to.size_bytes || moved == what.to)) return;
    for_each_row(what.to, [&](std::int64_t begin, std::int64_t end) {
      bytes_.change(begin, end, [](Held& held) { held.received = 0; });
    });
  }
  void step(const Pack& what) { move(what.from, what.to); }
  void step(const Unpack& what) { move(what.from, what.to); }
  void step(const Record&) {}
  void step(const Wait&) {}

  // --- messages

  void count_messages() {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const What& what = program_.instructions[i].what;
      if (!std::holds_alternative<Send>(what) && !std::holds_alternative<Recv>(what)) continue;
      messages_.emplace(i, values_.messages.size());
      values_.messages.emplace_back();
    }
  }

  void step(const Send& what) {
    const Found found = read(what.from);
    take(found.value, what.from);
    Carried& message = values_.messages[messages_.at(index_)];
    message.micro = std::nullopt;
    if (const auto micro = contents_.micro(found.value)) message.micro = batch(*micro).micro;
    if (found.received != 0)
      message.received = found.received - 1;
    else
      message.made = hash_of_all(what.from);
  }
  const Batch& batch(std::size_t index) const {
    return std::next(micros_.begin(), static_cast<std::ptrdiff_t>(index))->first;
  }

  /// The same for all slices of a tensor, of which a message carries one, on whatever rank.
  std::uint64_t hash_of_all(const Slice& slice) const {
    const Buffer& buffer = program_.buffer(slice.buffer);
    std::uint64_t hash = 7, before = 0;
    const Slice all = is_block(buffer) ? slice : program_.whole(slice.buffer);
    for_each_run_of(all, [&](std::int64_t, std::int64_t, const Held& held) {
      if (held.is_blank() || kind_of(held) == before) return;
      before = kind_of(held);
      hash = mixed(mixed(hash, before), static_cast<std::uint64_t>(held.begin - begin_of(all)));
    });
    return hash;
  }

  /// Within a micro-batch the n-th value that comes with a tag is always of one kind. Otherwise
  /// another mesh adds to a sum, which that mesh answers for.
  void step(const Recv& what) {
    const std::uint32_t number = received_by(what);
    Carried& message = values_.messages[messages_.at(index_)];
    message.received = number;
    message.micro = task_->micro;
    const Buffer& buffer = program_.buffer(what.to.buffer);
    write(what.to, Held{came_[number], static_cast<std::uint32_t>(index_), number + 1, Way::none,
                        is_block(buffer) ? begin_of(what.to) : address(program_, what.to.buffer)});
  }

  /// The number of the value that a message brings a box of.
  std::uint32_t received_by(const Recv& what) {
    if (const auto known = under_way_.find(what.tag); known != under_way_.end()) {
      bool has_come = false;
      for_each_row(what.to, [&](std::int64_t begin, std::int64_t end) {
        bytes_.visit(begin, end, [&](const Held& held) {
          has_come = has_come || held.received == known->second + 1;
        });
      });
      if (!has_come && values_.received[known->second].buffer == what.to.buffer)
        return known->second;
    }
    const auto number = static_cast<std::uint32_t>(values_.received.size());
    const std::uint64_t name = mixed(
        task_hash_, mixed(static_cast<std::uint64_t>(what.tag), received_in_task_[what.tag]++));
    values_.received.push_back(
        {name, what.tag, what.to.buffer, static_cast<std::uint32_t>(index_), false});
    came_.push_back(micro_ ? contents_.one(name, name, micro_) : Contents::zero());
    if (micro_) received_.emplace(came_.back(), number);
    under_way_[what.tag] = number;
    return number;
  }

  void step(const Feed& what) {
    const std::uint64_t kind =
        mixed(4, std::hash<std::string>()(program_.inputs[what.input.index()].name));
    write(what.to, contents_.one(kind, kind, number({what.micro, what.chunk})));
  }

  // --- ops

  void step(const Compute& what) {
    for (const op::Piece& piece : op::pieces(what.op)) {
      slices_.clear();
      for (const std::size_t operand : piece.operands) slices_.push_back(what.slices[operand]);
      compute(piece.op);
    }
  }

  /// Rows that leave a sum what it is, or add two, in any type. False for all others.
  bool keeps_terms(const op::Op& op) {
    if (op::is_rounding(op)) {
      write(slices_[1], read(slices_[0]).value, Way::rounded);
      return true;
    }
    if (op::is_widening(op) && leads_back(slices_[0])) {
      write(slices_[1], read(slices_[0]).value);
      return true;
    }
    if (!op::is_sum_of_two(op) && (!op::is_sum_with_rounded(op) || !leads_back(slices_[1])))
      return false;
    write(slices_[2], contents_.sum(read(slices_[0]).value, read(slices_[1]).value));
    return true;
  }

  void compute(const op::Op& op) {
    if (op::constant_of(op) == 0.0) return write(slices_[0], Contents::zero());
    if (keeps_terms(op)) return note_computed(hash_of(op));
    const op::Operands operands = op::operands(op);
    const bool updates = is_update(op);
    std::uint64_t inputs = 5;
    Meeting all;
    ValueId gradient = Contents::zero();
    reads_.clear();
    weights_.clear();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role == op::Role::write ||
          (operands[i].role == op::Role::update && is_sum(op, operands[i])))
        continue;
      const Found found = take_operand(slices_[i], all);
      reads_.push_back(contents_.kind(found.value));
      inputs = mixed(inputs, reads_.back());
      // Which rows of a weight an update changes differs by rank; rules part and update-once know.
      const bool is_own = updates && operands[i].state == op::State::weight;
      if (found.offset != 0 && !is_own)
        inputs = mixed(inputs, static_cast<std::uint64_t>(found.offset));
      const op::State state = operands[i].state;
      if (state == op::State::sum_over_gradients || state == op::State::sum_over_updates)
        totals_.push_back({index_, found.value, state == op::State::sum_over_gradients});
      if (state == op::State::gradient) gradient = found.value;
    }
    if (updates) {
      const std::size_t weight = op::operand_of(op, op::State::weight).value();
      updates_.push_back({index_, slices_[weight].buffer, gradient, Contents::zero()});
    }
    meet_window(all, op);
    count_uses(all.micro);
    write_outputs(op, operands, inputs, all.micro);
  }

  /// Beside what a row reads, it says what it is and for which micro-batch.
  void note_computed(std::uint64_t hash) {
    const std::uint64_t micro = task_->micro ? static_cast<std::uint64_t>(*task_->micro) + 1 : 0;
    values_.computed[program_.instructions[index_].stream.index()].push_back(
        {mixed(hash, mixed(task_hash_, micro)), static_cast<std::uint32_t>(index_)});
  }

  /// What an op draws for samples is of their chunk, as all that it reads. Their micro-batch is
  /// that of the task (rule part).
  void meet_window(Meeting& all, const op::Op& op) {
    const auto window = op::samples_of(op);
    if (!window || !task_->micro) return;
    const auto micro = number({*task_->micro, window->chunk});
    if (!all.micro) all.micro = micro;
    if (micro && all.micro != micro)
      fault(index_, format("it counts the samples of {}, but reads what is of {}",
                           micro_text(*micro), micro_text(*all.micro)));
  }

  /// What reads a weight and no samples does so for all chunks of the micro-batch.
  void count_uses(std::optional<std::size_t> micro) {
    if (weights_.empty()) return;
    for (const BufferId weight : weights_) {
      std::vector<std::uint32_t>& uses = uses_[weight];
      uses.resize(micros_.size());
      if (micro) {
        ++uses[*micro];
      } else {
        for (auto place = micros_.find({*task_->micro, 0});
             place != micros_.end() && place->first.micro == *task_->micro; ++place)
          ++uses[place->second];
      }
    }
  }

  /// True if what a slice holds was rounded for a collective, as the program says that it does, and
  /// has only moved since. All else that leads from bf16 to float32 is a row as any other.
  bool leads_back(const Slice& slice) {
    const Way way = read(slice).way;
    if (way == Way::none) return false;
    if (program_.reduce != program_.buffer(slice.buffer).dtype)
      fault(index_,
            format("it takes {} back to the type of sums, but the program does not say "
                   "that it reduces gradients in {}",
                   name_of(slice), fourfold::to_string(program_.buffer(slice.buffer).dtype)));
    else if (way == Way::rounded)
      fault(index_,
            format("no collective has carried {}, which was rounded for one", name_of(slice)));
    return true;
  }

  /// True if a row adds to this operand, or begins a sum in it, as its attribute says.
  static bool is_sum(const op::Op& op, const op::Operand& operand) {
    return op::can_accumulate(op) && operand.state == op::State::none;
  }

  Found take_operand(const Slice& slice, Meeting& all) {
    const Found found = read(slice);
    take(found.value, slice);
    meet(all, found.value, slice);
    if (task_->kind == TaskKind::forward && micro_)
      if (const auto weight = parameter_of_.find(found.value); weight != parameter_of_.end())
        weights_.push_back(weight->second);
    return found;
  }

  void write_outputs(const op::Op& op, const op::Operands& operands, std::uint64_t inputs,
                     std::optional<std::size_t> micro) {
    const std::uint64_t row = mixed(hash_of(op), inputs);
    note_computed(row);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role == op::Role::read) continue;
      const std::uint64_t kind = mixed(row, i);
      const ValueId term = contents_.one(kind, inputs, micro);
      const bool adds = is_sum(op, operands[i]);
      if (adds && is_update(op)) updates_.back().found = term;
      if (adds) contributions_.try_emplace(kind, Contribution{index_, reads_});
      if (op::is_widening(op) || op::is_sum_with_rounded(op)) led_back_.try_emplace(kind, index_);
      if (!weights_.empty()) reads_.push_back(contents_.kind(term));
      if (adds && operands[i].role == op::Role::update)
        accumulate(slices_[i], term);
      else
        write(slices_[i], term);
    }
    if (!weights_.empty() && micro.value_or(*micro_) == 0)
      for (const std::uint64_t kind : reads_) met_[kind].insert(weights_.begin(), weights_.end());
  }

  void accumulate(const Slice& slice, ValueId term) {
    if (const auto result =
            micro_ ? contents_.accumulate(read(slice).value, term) : added_to_total(slice, term))
      return write(slice, *result);
    const std::size_t first = contributions_.at(contents_.content(term).kinds).index;
    fault(index_,
          format("{} has this contribution already: instruction {} ({}) makes the same",
                 name_of(slice), first, short_text(program_, program_.instructions[first])));
  }

  /// Outside of micro-batches totals over all gradients or updates are made. Two gradients may be
  /// equal, as those of the biases of two terms of a sum are; they lie at different places.
  std::optional<ValueId> added_to_total(const Slice& slice, ValueId term) {
    std::uint64_t places = mixed(6, static_cast<std::uint64_t>(begin_of(slice)));
    for (const Slice& operand : slices_)
      places = mixed(places, static_cast<std::uint64_t>(begin_of(operand)));
    if (!totalled_.insert(mixed(places, contents_.kind(term)))) return std::nullopt;
    return contents_.sum(read(slice).value, term);
  }

  // --- at the end

  /// What the host reads is complete, too.
  void check_results() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferId id(i);
      if (program_.buffer(id).role != BufferRole::result_block) continue;
      for (const op::BlockField& field : op::result_fields)
        check_result(
            {id, static_cast<std::int64_t>(field.offset_bytes), 1, size_bytes(field.dtype), 0});
    }
  }
  void check_result(const Slice& slice) {
    Held held;
    bytes_.visit(begin_of(slice), begin_of(slice) + 1, [&](const Held& here) { held = here; });
    index_ = held.writer;
    take(held.value, slice);
    if (const auto micro = contents_.micro(held.value); micro && micros_.size() > 1)
      fault(index_,
            format("what it leaves in {} is of {} alone", name_of(slice), micro_text(*micro)));
  }

  void check_updates() {
    Content gradients, updates;
    for (const Update& update : updates_) {
      check_gradient(update);
      gradients += term_of(update, true);
      updates += term_of(update, false);
    }
    if (updates_.empty()) return;
    for (const Total& total : totals_) check_total(total, total.of_gradients ? gradients : updates);
  }
  /// What a total over gradients, which a row makes that reads one alone, or over updates has of an
  /// update.
  Content term_of(const Update& update, bool of_gradients) const {
    return of_gradients ? Content{0, mixed(5, contents_.kind(update.gradient)), 1}
                        : contents_.content(update.found);
  }

  /// A gradient has a contribution of each micro-batch for each use of its weight in the forward
  /// pass.
  void check_gradient(const Update& update) {
    const ValueId gradient = update.gradient;
    if (contents_.is_faulty(gradient)) return;
    const std::string& name = program_.buffer(update.weight).name;
    if (const auto micro = contents_.micro(gradient); micro && micros_.size() > 1)
      return fault(update.index,
                   format("the gradient of {} is of {} alone", name, micro_text(*micro)));
    const auto used = uses_.find(update.weight);
    for (std::size_t micro = 0; micro < micros_.size(); ++micro) {
      const std::uint64_t uses = used == uses_.end() ? 0 : used->second[micro],
                          count = contents_.content(gradient).count;
      if (uses == count) continue;
      return fault(
          update.index,
          format(
              "the gradient of {} has {} contributions of {}, but {} of its forward pass use the "
              "weight",
              name, count, micro_text(micro), uses));
    }
    check_origin(update);
  }

  /// A contribution that reads what met weights in the forward pass belongs to one of them.
  void check_origin(const Update& update) {
    const auto kinds = contents_.first_kinds(update.gradient);
    if (!kinds)
      return fault(update.index, "its gradient is a sum that is nested too deep to be followed");
    for (const std::uint64_t kind : *kinds) {
      if (const auto row = led_back_.find(kind); row != led_back_.end())
        return fault(update.index,
                     format("the gradient of {} has a term that instruction {} ({}) takes back to "
                            "the type of sums: what was summed up before was rounded",
                            program_.buffer(update.weight).name, row->second,
                            short_text(program_, program_.instructions[row->second])));
      const auto contribution = contributions_.find(kind);
      if (contribution == contributions_.end()) continue;
      bool is_known = false, is_own = false;
      for (const std::uint64_t read : contribution->second.reads)
        if (const auto met = met_.find(read); met != met_.end()) {
          is_known = true;
          is_own = is_own || met->second.contains(update.weight);
        }
      if (!is_known || is_own) continue;
      return fault(update.index,
                   format("the gradient of {} has a contribution of another weight: instruction {} "
                          "({}) reads nothing that meets this one in the forward pass",
                          program_.buffer(update.weight).name, contribution->second.index,
                          short_text(program_, program_.instructions[contribution->second.index])));
    }
  }

  void check_total(const Total& total, const Content& expected) {
    const Content& found = contents_.content(total.value);
    if (contents_.is_faulty(total.value) || found.inputs == expected.inputs) return;
    const std::string_view what = total.of_gradients ? "gradient" : "update";
    for (const Update& update : updates_)
      if (const std::uint64_t one = term_of(update, total.of_gradients).inputs;
          expected.inputs - found.inputs == one || found.inputs - expected.inputs == one)
        return fault(total.index, format("the sum over all {}s has the {} of {} {}", what, what,
                                         program_.buffer(update.weight).name,
                                         found.count < expected.count ? "not at all" : "twice"));
    fault(total.index, format("it reads a sum of {} contributions as that over all {}s, of which "
                              "there are {}",
                              found.count, what, expected.count));
  }

  const Program& program_;
  Report& report_;
  const std::map<Batch, std::size_t> micros_;
  Claims claims_;
  Contents contents_;
  IntervalMap<Held> bytes_;
  std::map<ValueId, BufferId> parameter_of_;
  std::unordered_map<std::uint64_t, Contribution> contributions_;  // by kind
  std::unordered_map<std::uint64_t, std::size_t> led_back_;  // by kind: the row of a rounded value
  /// By kind of value: the weights that rows of the forward pass read beside it, or make it from.
  std::unordered_map<std::uint64_t, std::set<BufferId>> met_;
  std::map<BufferId, std::vector<std::uint32_t>> uses_;  // how many of a weight, by micro-batch
  std::vector<Update> updates_;
  std::vector<Total> totals_;
  NumberSet totalled_;  // hashes of a total, a term and where it is from
  Values values_;
  std::unordered_map<std::size_t, std::size_t> messages_;  // by instruction: into the list
  std::vector<ValueId> came_;                              // of each value that is received
  std::unordered_map<ValueId, std::uint32_t> received_;    // numbers of them
  std::size_t faults_ = 0;

  // Where the walk is.
  const Task* task_ = nullptr;
  std::optional<std::size_t> micro_;
  std::size_t index_ = 0;
  std::uint64_t task_hash_ = 0;
  std::map<std::pair<TaskKind, std::optional<std::int64_t>>, std::uint64_t> tasks_;  // how many
  std::map<std::int64_t, std::uint64_t> received_in_task_;  // values by tag
  std::map<std::int64_t, std::uint32_t> under_way_;         // the last of them
  std::vector<Slice> slices_;                               // of the part under way
  std::vector<std::uint64_t> reads_;                        // kinds of what it reads
  std::vector<BufferId> weights_;                           // that it uses in the forward pass
};

}  // namespace

void check_sums(const Program& program, Report& report) {
  SumCheck(program, report).run();
}

Values values_of(const Program& program) {
  Report unused(program);
  return SumCheck(program, unused).values();
}

}  // namespace fourfold::verify
