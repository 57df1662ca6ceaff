// sum: whether every sum has its full number of contributions when somebody takes it as a whole.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "base/format.h"
#include "base/number_set.h"
#include "op/blocks.h"
#include "program/text.h"
#include "program/text_instruction.h"
#include "verify/batches.h"
#include "verify/box.h"
#include "verify/content.h"
#include "verify/gradient_sums.h"
#include "verify/held_bytes.h"
#include "verify/rules.h"
#include "verify/values.h"

namespace fourfold::verify {
namespace {

constexpr std::size_t most_sum_faults = 16;  // of a program, by this rule

class SumCheck {
 public:
  SumCheck(const Program& program, Report& report)
      : program_(program),
        report_(report),
        batches_(program),
        claims_(program),
        contents_(batches_.size()),
        bytes_(program),
        gradients_(program, batches_, contents_,
                   [this](std::size_t index, std::string_view message) { fault(index, message); }) {
    values_.computed.resize(program.streams.size());
    count_messages();
  }

  void run() {
    if (batches_.empty()) return;
    walk();
    check_results();
    gradients_.check();
  }

  Values values() {
    walk();
    values_.num_micros = batches_.num_micros();
    return std::move(values_);
  }

 private:
  void walk() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role != BufferRole::result_block) begin(BufferId(i));
    for (const Task& task : program_.tasks) {
      task_ = &task;
      micro_ = task.micro ? batches_.number({*task.micro, 0}) : std::nullopt;
      const std::uint64_t times = tasks_[{task.kind, task.micro}]++;
      task_hash_ = mixed(mixed(3, static_cast<std::uint64_t>(task.kind)), micro_ ? 0 : times);
      received_in_task_.clear();
      under_way_.clear();
      const std::size_t end = std::min(task.end, program_.instructions.size());
      for (index_ = task.begin; index_ < end; ++index_)
        std::visit([&](const auto& what) { step(what); }, program_.instructions[index_].what);
    }
  }

  /// What a slice holds: all of what was written, or a part.
  struct Found {
    ValueId value = Contents::zero();
    std::int64_t offset = 0;  // from the begin of what was written
    Way way = Way::none;
    std::uint32_t received = 0;
  };
  /// The micro-batch of what an instruction reads, and the value that says so.
  struct Meeting {
    std::optional<std::size_t> micro;
    ValueId by;
  };
  void fault(std::size_t index, std::string_view message) {
    if (++faults_ <= most_sum_faults) report_.fault("sum", index, message);
  }
  std::string name_of(const Slice& slice) const { return slice_text(program_, slice); }

  // --- what bytes hold

  void write(const Slice& slice, ValueId value, Way way = Way::none) {
    bytes_.write(slice,
                 Held{value, static_cast<std::uint32_t>(index_), 0, way, bytes_.begin_of(slice)});
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
    bytes_.write(id, Held{value, 0, 0, Way::none, address(program_, id)});
  }

  Found read(const Slice& slice) {
    std::optional<Held> first;
    bool differ = false;
    bytes_.visit(slice, [&](const Held& held) {
      if (!first) first = held;
      differ = differ || !held.is_same(*first);
    });
    if (differ) return join(slice);
    return first ? found(slice, *first) : Found{};
  }
  Found found(const Slice& slice, const Held& held) const {
    return {held.value, bytes_.begin_of(slice) - held.begin, held.way, held.received};
  }

  /// One value for what was written piece by piece; beside padding that is zero it may be one
  /// already.
  Found join(const Slice& slice) {
    check_boxes(slice);
    std::uint64_t kinds = 2;
    Meeting all;
    std::optional<Held> first;
    bool differ = false, has_padding = false, is_received = false;
    bytes_.visit(slice, [&](const Held& held) { is_received = is_received || held.received != 0; });
    bytes_.visit_runs(slice, [&](std::int64_t begin, std::int64_t end, const Held& held) {
      // Messages bring no padding: what was there before them stays.
      const bool is_left = held.is_blank() || (is_received && held.received == 0);
      if (is_left && is_in_padding(slice.buffer, begin, end)) {
        has_padding = true;
        return;
      }
      if (!first) first = held;
      differ = differ || !held.is_same(*first);
      take(held.value, slice);
      meet(all, held.value, slice);
      kinds = mixed(mixed(kinds, kind_of(held)),
                    static_cast<std::uint64_t>(begin - bytes_.begin_of(slice)));
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
    bytes_.visit_runs(slice, [&](std::int64_t begin, std::int64_t end, const Held& held) {
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
    if (const Contribution* known = gradients_.contribution(lacking))
      fault(index_, gap_text(slice, known->index, gap->lacks, gap->has));
    else if (const Contribution* other = gradients_.contribution(stray))
      fault(index_, gap_text(slice, other->index, gap->has, gap->lacks));
    else
      fault(index_, format("what {} and {} add to {} is not the same", batches_.text(gap->lacks),
                           batches_.text(gap->has), name_of(slice)));
  }
  std::string gap_text(const Slice& slice, std::size_t contribution, std::size_t lacks,
                       std::size_t has) const {
    return format(
        "the sum in {} is not complete: nothing adds for {} what it has of {}, as instruction {} "
        "({}) adds it",
        name_of(slice), batches_.text(lacks), batches_.text(has), contribution,
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
                           batches_.text(*micro), batches_.text(*all.micro)));
    }
  }

  // --- instructions that move values

  void move(const Slice& from, const Slice& to) {
    const Found found = read(from);
    note_gradient(found.value, from);
    bytes_.write(to, Held{found.value, static_cast<std::uint32_t>(index_), found.received,
                          found.way, bytes_.begin_of(to)});
  }
  /// Rule state knows whether a collective may be where it is; what works in place changes no sum.
  /// A gather in place makes of the own rows, which lie elsewhere on each rank, one value.
  template <AnyCollective Kind>
  void step(const Kind& what) {
    for_each_tensor(what, [&](const Slice& from, const Slice& to) {
      if (from.buffer != to.buffer || std::is_same_v<Kind, AllGather>) move(from, to);
      bytes_.change(to, [](Held& held) {
        if (held.way == Way::rounded) held.way = Way::carried;
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
    bytes_.change(what.to, [](Held& held) { held.received = 0; });
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
    if (const auto micro = contents_.micro(found.value)) message.micro = batches_.at(*micro).micro;
    if (found.received != 0)
      message.received = found.received - 1;
    else
      message.made = hash_of_all(what.from);
  }

  /// The same for all slices of a tensor, of which a message carries one, on whatever rank.
  std::uint64_t hash_of_all(const Slice& slice) const {
    const Buffer& buffer = program_.buffer(slice.buffer);
    std::uint64_t hash = 7, before = 0;
    const Slice all = is_block(buffer) ? slice : program_.whole(slice.buffer);
    bytes_.visit_runs(all, [&](std::int64_t, std::int64_t, const Held& held) {
      if (held.is_blank() || kind_of(held) == before) return;
      before = kind_of(held);
      hash =
          mixed(mixed(hash, before), static_cast<std::uint64_t>(held.begin - bytes_.begin_of(all)));
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
    bytes_.write(
        what.to,
        Held{came_[number], static_cast<std::uint32_t>(index_), number + 1, Way::none,
             is_block(buffer) ? bytes_.begin_of(what.to) : address(program_, what.to.buffer)});
  }

  /// The number of the value that a message brings a box of.
  std::uint32_t received_by(const Recv& what) {
    if (const auto known = under_way_.find(what.tag); known != under_way_.end()) {
      bool has_come = false;
      bytes_.visit(what.to, [&](const Held& held) {
        has_come = has_come || held.received == known->second + 1;
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
    write(what.to, contents_.one(kind, kind, batches_.number({what.micro, what.chunk})));
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
    made_of_.reset();
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
        gradients_.note_total(index_, found.value, state == op::State::sum_over_gradients);
      if (state == op::State::gradient) gradient = found.value;
      follow_gradient(found.value);
    }
    if (updates) {
      const std::size_t weight = op::operand_of(op, op::State::weight).value();
      gradients_.note_update(index_, slices_[weight].buffer, gradient_of(gradient));
    }
    meet_window(all, op);
    if (!weights_.empty()) gradients_.count_uses(weights_, all.micro, *task_->micro);
    write_outputs(op, operands, inputs, all.micro);
  }

  /// Several rows may make an update of one gradient: what they make is told by it.
  void note_gradient(ValueId value, const Slice& slice) {
    if (program_.buffer(slice.buffer).role == BufferRole::gradient)
      gradient_of_.emplace(value, value);
  }
  void follow_gradient(ValueId value) {
    const auto made_of = gradient_of_.find(value);
    if (micro_ || made_of == gradient_of_.end()) return;
    if (made_of_ && *made_of_ != made_of->second)
      fault(index_, "it reads what is made of the gradients of two weights");
    made_of_ = made_of->second;
  }
  ValueId gradient_of(ValueId value) const {
    const auto made_of = gradient_of_.find(value);
    return made_of == gradient_of_.end() ? value : made_of->second;
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
    const auto micro = batches_.number({*task_->micro, window->chunk});
    if (!all.micro) all.micro = micro;
    if (micro && all.micro != micro)
      fault(index_, format("it counts the samples of {}, but reads what is of {}",
                           batches_.text(*micro), batches_.text(*all.micro)));
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
    note_gradient(found.value, slice);
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
      if (made_of_) gradient_of_.emplace(term, *made_of_);
      if (adds && is_update(op)) gradients_.note_found(term);
      if (adds) gradients_.note_contribution(kind, index_, reads_);
      if (op::is_widening(op) || op::is_sum_with_rounded(op))
        gradients_.note_led_back(kind, index_);
      if (!weights_.empty()) reads_.push_back(contents_.kind(term));
      if (adds && operands[i].role == op::Role::update)
        accumulate(slices_[i], term);
      else
        write(slices_[i], term);
    }
    if (!weights_.empty() && micro.value_or(*micro_) == 0) gradients_.note_met(weights_, reads_);
  }

  void accumulate(const Slice& slice, ValueId term) {
    if (const auto result =
            micro_ ? contents_.accumulate(read(slice).value, term) : added_to_total(slice, term))
      return write(slice, *result);
    const std::size_t first = gradients_.contribution(contents_.content(term).kinds)->index;
    fault(index_,
          format("{} has this contribution already: instruction {} ({}) makes the same",
                 name_of(slice), first, short_text(program_, program_.instructions[first])));
  }

  /// Outside of micro-batches totals over all gradients or updates are made. Two gradients may be
  /// equal, as those of the biases of two terms of a sum are; they lie at different places.
  std::optional<ValueId> added_to_total(const Slice& slice, ValueId term) {
    std::uint64_t places = mixed(6, static_cast<std::uint64_t>(bytes_.begin_of(slice)));
    for (const Slice& operand : slices_)
      places = mixed(places, static_cast<std::uint64_t>(bytes_.begin_of(operand)));
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
    const Held held = bytes_.first(slice);
    index_ = held.writer;
    take(held.value, slice);
    if (const auto micro = contents_.micro(held.value); micro && batches_.size() > 1)
      fault(index_,
            format("what it leaves in {} is of {} alone", name_of(slice), batches_.text(*micro)));
  }

  const Program& program_;
  Report& report_;
  const Batches batches_;
  Claims claims_;
  Contents contents_;
  HeldBytes bytes_;
  GradientSums gradients_;
  std::map<ValueId, BufferId> parameter_of_;
  std::unordered_map<ValueId, ValueId> gradient_of_;  // of what rows of the update make of it
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
  std::optional<ValueId> made_of_;                          // the gradient that it reads, or all
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
