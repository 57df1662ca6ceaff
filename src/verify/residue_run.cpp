#include "verify/residue_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/format.h"
#include "verify/residue_moves.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

using op::Residue;

/// One run of one program.
class Execution {
 public:
  Execution(const ResidueJob& job, std::size_t place, const ElementArithmetic& arithmetic,
            std::vector<ResidueMemory>& memories, ResidueTrace* trace, const HostInputs& inputs,
            const Plant* plant)
      : job_(job),
        place_(place),
        arithmetic_(arithmetic),
        memories_(memories),
        trace_(trace),
        inputs_(inputs),
        plant_(plant) {
    for (std::size_t rank = 0; rank < job.num_ranks(); ++rank) {
      RankState& state = ranks_.emplace_back();
      state.streams.resize(prepared(rank).streams.size());
      state.is_recorded.resize(program(rank).num_events);
      memories[rank].begin(inputs.step.step);
      write_step_block(rank);
      wake(rank);
    }
  }

  std::optional<std::string> run() {
    while (!awake_.empty() && fault_.empty()) {
      const std::size_t rank = awake_.front();
      awake_.pop_front();
      ranks_[rank].is_awake = false;
      advance(rank);
    }
    if (fault_.empty()) find_waiting();
    if (fault_.empty()) return std::nullopt;
    return fault_;
  }

 private:
  struct Stream {
    std::size_t next = 0;
    bool is_in_collective = false;
  };
  struct RankState {
    std::vector<Stream> streams;
    std::vector<bool> is_recorded;
    bool is_awake = false;
  };
  struct Arrival {
    std::size_t rank, stream, instruction;
  };
  struct Message {
    DType type;
    Cells cells;
  };
  /// Sender, receiver, tag.
  using Channel = std::tuple<std::size_t, std::size_t, std::int64_t>;

  const ResidueProgram& prepared(std::size_t rank) const { return job_.prepared(rank, place_); }
  const Program& program(std::size_t rank) const { return job_.program(rank, place_); }
  void fail(std::size_t rank, std::size_t instruction, std::string_view message) {
    if (fault_.empty())
      fault_ = format("rank {}: {}: {}", rank, place_text(program(rank), instruction), message);
  }
  void wake(std::size_t rank) {
    if (std::exchange(ranks_[rank].is_awake, true)) return;
    awake_.push_back(rank);
  }

  void write_step_block(std::size_t rank) {
    const Program& of = program(rank);
    const auto block = std::ranges::find(of.buffers, BufferRole::step_block, &Buffer::role);
    if (block == of.buffers.end()) return;
    const op::StepBlock& step = inputs_.step;
    const auto put = [&](std::string_view name, Residue word) {
      const op::BlockField field = *op::find_block_field(name);
      const Slice slice{BufferId(static_cast<std::size_t>(block - of.buffers.begin())),
                        static_cast<std::int64_t>(field.offset_bytes), 1, size_bytes(field.dtype),
                        0};
      Cells cells = made(1);
      cells.words[0] = word;
      cells.kinds[0] = element_kind(field.dtype);
      memories_[rank].store(of, slice, field.dtype, cells);
      if (trace_ != nullptr) trace_->collect(cells);
    };
    const auto put_integer = [&](std::string_view name, std::int64_t value) {
      put(name, static_cast<Residue>(value));
    };
    put_integer("step.step", step.step);
    put("step.seed", step.seed);
    put("step.lr", arithmetic_.number(step.lr));
    put_integer("step.first_sample", step.first_sample);
    put_integer("step.vote", inputs_.votes[rank]);
    put_integer("step.position", step.position);
    put_integer("step.index", step.index);
  }

  Cells made(std::size_t count) const {
    Cells cells;
    cells.resize(count, trace_ != nullptr);
    return cells;
  }

  // --- order

  void advance(std::size_t rank) {
    const ResidueProgram& of = prepared(rank);
    std::vector<Stream>& streams = ranks_[rank].streams;
    for (bool moves = true; moves && fault_.empty();) {
      moves = false;
      for (std::size_t i = 0; i < streams.size(); ++i)
        while (streams[i].next < of.streams[i].size() && !streams[i].is_in_collective &&
               fault_.empty() && step(rank, i, of.streams[i][streams[i].next])) {
          if (!streams[i].is_in_collective) ++streams[i].next;
          moves = true;
        }
    }
  }

  /// Carries out an instruction; false where it has to wait.
  bool step(std::size_t rank, std::size_t stream, std::size_t instruction) {
    return std::visit(
        [&]<class Kind>(const Kind& what) {
          if constexpr (std::is_same_v<Kind, Wait>) {
            return static_cast<bool>(ranks_[rank].is_recorded[what.event.index()]);
          } else if constexpr (std::is_same_v<Kind, Record>) {
            ranks_[rank].is_recorded[what.event.index()] = true;
          } else if constexpr (std::is_same_v<Kind, Recv>) {
            return receive(rank, instruction, what);
          } else if constexpr (AnyCollective<Kind>) {
            arrive({rank, stream, instruction}, what);
          } else {
            carry_out(rank, instruction, what);
          }
          return true;
        },
        program(rank).instructions[instruction].what);
  }

  /// Where the ranks stand when none of them can go on.
  void find_waiting() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (std::size_t i = 0; i < ranks_[rank].streams.size(); ++i) {
        const std::vector<std::uint32_t>& list = prepared(rank).streams[i];
        const std::size_t next = ranks_[rank].streams[i].next;
        if (next < list.size()) return fail(rank, list[next], "it waits for ever");
      }
    for (const auto& [channel, messages] : messages_)
      if (!messages.empty()) {
        fault_ = format("{}: rank {} sends rank {} with tag {} what nobody receives",
                        op::to_string(program(0).kind), std::get<0>(channel), std::get<1>(channel),
                        std::get<2>(channel));
        return;
      }
  }

  // --- what moves elements

  Cells load(std::size_t rank, const Slice& slice, DType type) const {
    Cells cells;
    memories_[rank].load(program(rank), slice, type, cells);
    return cells;
  }
  DType type(std::size_t rank, const Slice& slice) const { return type_of(program(rank), slice); }

  void carry_out(std::size_t rank, std::size_t, const Send& what) {
    const DType of = type(rank, what.from);
    messages_[{rank, what.peer.index(), what.tag}].push_back({of, load(rank, what.from, of)});
    wake(what.peer.index());
  }
  bool receive(std::size_t rank, std::size_t instruction, const Recv& what) {
    auto& messages = messages_[{what.peer.index(), rank, what.tag}];
    if (messages.empty()) return false;
    const DType of = type(rank, what.to);
    if (messages.front().type != of ||
        messages.front().cells.size() != ResidueMemory::count(what.to, of))
      fail(rank, instruction, "its message has another number of elements, or another type");
    else
      memories_[rank].store(program(rank), what.to, of, messages.front().cells);
    messages.pop_front();
    return true;
  }
  void carry_out(std::size_t rank, std::size_t instruction, const Copy& what) {
    const DType of = type(rank, what.from);
    if (what.from.bytes() != what.to.bytes())
      return fail(rank, instruction, "it has other numbers of bytes on its sides");
    memories_[rank].store(program(rank), what.to, of, load(rank, what.from, of));
  }
  void carry_out(std::size_t rank, std::size_t instruction, const Pack& what) {
    const DType of = type(rank, what.from);
    store_packed(rank, instruction, what.to,
                 packed(program(rank), what, load(rank, what.from, of)));
  }
  void carry_out(std::size_t rank, std::size_t instruction, const Unpack& what) {
    const DType of = type(rank, what.from);
    store_packed(rank, instruction, what.to,
                 unpacked(program(rank), what, load(rank, what.from, of)));
  }
  void store_packed(std::size_t rank, std::size_t instruction, const Slice& to,
                    const std::optional<Cells>& cells) {
    if (!cells) return fail(rank, instruction, "its slices are not one tensor, plain and blocked");
    memories_[rank].store(program(rank), to, type(rank, to), *cells);
  }
  void carry_out(std::size_t rank, std::size_t, const Feed& what) {
    const Program& of = program(rank);
    const Input& input = of.inputs[what.input.index()];
    const std::int64_t in_sample = input.sample_shape.elements();
    const std::int64_t first = inputs_.step.first_sample + what.micro * of.feeds.samples +
                               of.feeds.first + what.chunk * of.feeds.of_chunk();
    Cells cells = made(ResidueMemory::count(what.to, input.dtype));
    std::ranges::fill(cells.kinds, element_kind(input.dtype));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      cells.words[i] = inputs_.feed(input, first + at / in_sample, at % in_sample);
    }
    if (trace_ != nullptr) trace_->collect(cells);
    memories_[rank].store(of, what.to, input.dtype, cells);
  }

  // --- rows

  void carry_out(std::size_t rank, std::size_t instruction, const Compute&) {
    if (trace_ != nullptr) trace_->begin(rank, place_, instruction);
    const auto rows = prepared(rank).rows_of(instruction);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      compute(rank, instruction, rows[i]);
      if (plant_ != nullptr && plant_->rank == rank && plant_->instruction == instruction &&
          plant_->row == i)
        plant(rank, rows[i]);
    }
  }

  void compute(std::size_t rank, std::size_t instruction, const ResidueRow& row) {
    const std::size_t count = row.operands.size();
    if (scratch_.size() < count) scratch_.resize(count);
    tensors_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const ResidueRow::Operand& operand = row.operands[i];
      Cells& cells = scratch_[i];
      memories_[rank].load(program(rank), operand.slice, operand.type, cells);
      if (static_cast<std::int64_t>(cells.size()) != operand.shape.elements())
        return fail(rank, instruction, "the slice of an operand has not the size of its shape");
      if (trace_ != nullptr && operand.role != op::Role::write) trace_->read(cells);
      replace_missing(operand, rank, cells);
      tensors_.push_back({operand.shape, cells.words, is_integer(operand.type)});
    }
    arithmetic_.compute(row.op, tensors_);
    for (std::size_t i = 0; i < count; ++i) {
      const ResidueRow::Operand& operand = row.operands[i];
      if (operand.role == op::Role::read) continue;
      if (trace_ != nullptr) trace_->write(scratch_[i]);
      memories_[rank].store(program(rank), operand.slice, operand.type, scratch_[i]);
    }
  }

  /// What a row writes may hold anything before.
  void replace_missing(const ResidueRow::Operand& operand, std::size_t rank, Cells& cells) {
    const ElementKind kind = element_kind(operand.type);
    const bool is_read = operand.role != op::Role::write;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells.kinds[i] == kind) continue;
      cells.kinds[i] = kind;
      if (!is_read) {
        cells.words[i] = unwritten_;
        continue;
      }
      const std::uint64_t place = operand.slice.buffer.index() << 32U |
                                  static_cast<std::uint64_t>(operand.slice.offset_bytes);
      cells.words[i] = arithmetic_.missing((place + i) * ranks_.size() + rank + 1);
      if (trace_ != nullptr) trace_->read_missing();
    }
  }

  void plant(std::size_t rank, const ResidueRow& row) {
    const ResidueRow::Operand& operand = row.operands[plant_->operand];
    Cells cells = load(rank, operand.slice, operand.type);
    cells.words[plant_->element] = op::not_finite;
    memories_[rank].store(program(rank), operand.slice, operand.type, cells);
  }

  // --- collectives

  template <class Kind>
  void arrive(const Arrival& arrival, const Kind& what) {
    const Group& group = program(arrival.rank).groups[what.group.index()];
    ranks_[arrival.rank].streams[arrival.stream].is_in_collective = true;
    auto& arrivals = arrivals_[prepared(arrival.rank).communicators[what.group.index()]];
    arrivals.resize(group.members.size());
    const auto position = group.members.position(Rank(arrival.rank));
    if (!position) return fail(arrival.rank, arrival.instruction, "this rank is not of its group");
    arrivals[*position].push_back(arrival);
    if (std::ranges::any_of(arrivals, [](const auto& list) { return list.empty(); })) return;
    std::vector<Arrival> members;
    for (auto& list : arrivals) {
      members.push_back(list.front());
      list.pop_front();
    }
    meet<Kind>(members);
    for (const Arrival& member : members) {
      Stream& stream = ranks_[member.rank].streams[member.stream];
      stream.is_in_collective = false;
      // The last one to arrive goes on where it is.
      if (member.rank != arrival.rank || member.stream != arrival.stream) ++stream.next;
      wake(member.rank);
    }
  }

  /// One tensor of a collective on all members.
  struct Exchanged {
    std::vector<Slice> from, to;
    std::vector<Cells> cells;
  };

  template <class Kind>
  void meet(const std::vector<Arrival>& members) {
    std::vector<Exchanged> tensors;
    for (const Arrival& member : members) {
      const auto* what =
          std::get_if<Kind>(&program(member.rank).instructions[member.instruction].what);
      if (what == nullptr)
        return fail(member.rank, member.instruction, "members of its group do something else");
      std::size_t number = 0;
      for_each_tensor(*what, [&](const Slice& from, const Slice& to) {
        if (number == tensors.size()) tensors.emplace_back();
        tensors[number].from.push_back(from);
        tensors[number++].to.push_back(to);
      });
    }
    const Arrival& first = members.front();
    if (trace_ != nullptr) trace_->begin(first.rank, place_, first.instruction);
    for (Exchanged& tensor : tensors) {
      if (tensor.from.size() != members.size())
        return fail(first.rank, first.instruction, "members of its group have fewer tensors");
      const DType of = type(first.rank, tensor.from.front());
      for (std::size_t i = 0; i < members.size(); ++i) {
        tensor.cells.push_back(load(members[i].rank, tensor.from[i], of));
        if (tensor.cells[i].size() != tensor.cells[0].size() ||
            type(members[i].rank, tensor.from[i]) != of)
          return fail(members[i].rank, first.instruction, "members of its group have other sizes");
      }
      const auto& what = std::get<Kind>(program(first.rank).instructions[first.instruction].what);
      const std::vector<Cells> results = exchange(what, of, members, tensor.cells);
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (results.empty() || results[i].size() != ResidueMemory::count(tensor.to[i], of))
          return fail(members[i].rank, first.instruction, "its two sides do not fit the group");
        memories_[members[i].rank].store(program(members[i].rank), tensor.to[i], of, results[i]);
      }
    }
  }

  /// What each member gets; nothing where the elements do not divide among them.
  template <AnyCollective Kind>
  std::vector<Cells> exchange(const Kind& what, DType of, const std::vector<Arrival>& members,
                              std::vector<Cells>& cells) {
    constexpr const CollectiveFacts& facts = facts_of(Kind::plain);
    if constexpr (facts.reduces()) {
      const Cells sum = reduced(what.reduction, of, members, cells);
      return facts.scatters() ? divided(sum, members.size())
                              : std::vector<Cells>(members.size(), sum);
    }
    if (!facts.scatters()) return std::vector<Cells>(members.size(), joined(cells));
    std::vector<std::vector<Cells>> sent(members.size());  // by receiver
    for (const Cells& share : cells) {
      const std::vector<Cells> shares = divided(share, members.size());
      for (std::size_t i = 0; i < shares.size(); ++i) sent[i].push_back(shares[i]);
    }
    std::vector<Cells> results;
    for (const std::vector<Cells>& shares : sent) results.push_back(joined(shares));
    return results;
  }

  Cells reduced(op::Reduction reduction, DType of, const std::vector<Arrival>& members,
                std::vector<Cells>& cells) {
    for (std::size_t member = 0; member < members.size(); ++member) {
      if (trace_ != nullptr) trace_->read(cells[member]);
      for (std::size_t i = 0; i < cells[member].size(); ++i)
        if (cells[member].kinds[i] != element_kind(of))
          cells[member].words[i] =
              arithmetic_.missing(i * ranks_.size() + members[member].rank + 1);
    }
    Cells sum = made(cells.front().size());
    std::ranges::fill(sum.kinds, element_kind(of));
    sum.words = cells.front().words;
    for (std::size_t member = 1; member < members.size(); ++member)
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum.words[i] = arithmetic_.reduced(reduction, of, sum.words[i], cells[member].words[i]);
    if (trace_ != nullptr) trace_->write(sum);
    return sum;
  }

  const ResidueJob& job_;
  std::size_t place_;
  const ElementArithmetic& arithmetic_;
  std::vector<ResidueMemory>& memories_;
  ResidueTrace* trace_;
  const HostInputs& inputs_;
  const Plant* plant_;

  std::vector<RankState> ranks_;
  std::deque<std::size_t> awake_;
  std::map<Channel, std::deque<Message>> messages_;
  /// By communicator and member: who has arrived and waits.
  std::unordered_map<std::uint32_t, std::vector<std::deque<Arrival>>> arrivals_;
  std::string fault_;
  const Residue unwritten_ = arithmetic_.missing(0);
  std::vector<Cells> scratch_;  // of the operands of a row
  std::vector<op::ResidueTensor> tensors_;
};

}  // namespace

ResidueRun::ResidueRun(const ResidueJob& job, const ElementArithmetic& arithmetic,
                       ResidueTrace* trace)
    : job_(job), arithmetic_(arithmetic), trace_(trace) {
  memories_.reserve(job.num_ranks());
  for (std::size_t rank = 0; rank < job.num_ranks(); ++rank)
    memories_.emplace_back(job.bundle(rank), trace != nullptr);
}

std::optional<std::string> ResidueRun::run(std::size_t place, const HostInputs& inputs,
                                           const Plant* plant) {
  return Execution(job_, place, arithmetic_, memories_, trace_, inputs, plant).run();
}

}  // namespace fourfold::verify
