#include "trace/describe_work.h"

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "op/table.h"
#include "program/text.h"

namespace fourfold::trace {
namespace {

using program::Instruction;
using program::Program;

/// Turns the instructions of one program, in their order.
class Description {
 public:
  Description(const Program& program, Words words)
      : program_(program),
        words_(words),
        last_(program.streams.size(), nullptr),
        recorded_(program.num_events) {}

  void add(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    if (const auto* record = std::get_if<program::Record>(&instruction.what)) {
      recorded_[record->event.index()] = {instruction.stream, last_[instruction.stream.index()]};
      return;
    }
    while (task_ < program_.tasks.size() && program_.tasks[task_].end <= index) ++task_;
    Work work;
    work.instruction = index;
    work.stream = instruction.stream.index();
    work.name = program::name(instruction);
    if (has_texts()) work.text = short_text(instruction);
    work.traffic = traffic_of(instruction);
    if (has_texts() && task_ < program_.tasks.size())
      work.task = program::short_text(program_.tasks[task_]);
    std::visit([&](const auto& what) { set(work, what); }, instruction.what);
    if (!std::holds_alternative<program::Wait>(instruction.what)) last_[work.stream] = &instruction;
    works_.push_back(std::move(work));
  }

  std::vector<Work> works() && { return std::move(works_); }

 private:
  bool has_texts() const { return words_ == Words::all; }

  /// Without the group, which is told apart.
  std::string short_text(const Instruction& instruction) const {
    std::string text = program::short_text(program_, instruction);
    const bool has_group =
        std::visit([](const auto& what) { return requires { what.group; }; }, instruction.what);
    if (has_group) text.erase(std::min(text.find(" group "), text.size()));
    return text;
  }

  /// What is neither a product nor attention counts by its task: all of an update is the optimizer.
  WorkClass class_of(op::WorkClass work) const {
    if (work == op::WorkClass::product) return WorkClass::gemm;
    if (work == op::WorkClass::core) return WorkClass::attention;
    const bool updates =
        task_ < program_.tasks.size() && program_.tasks[task_].kind == program::TaskKind::update;
    return updates ? WorkClass::optimizer : WorkClass::elementwise;
  }

  /// Empty for what exchanges nothing with other ranks.
  std::string traffic_of(const Instruction& instruction) const {
    return std::visit(
        [&]<class Kind>(const Kind& what) -> std::string {
          if constexpr (program::AnyCollective<Kind>) {
            const program::Group& group = program_.groups[what.group.index()];
            return group.members.size() > 1 ? group.name : std::string();
          } else if constexpr (std::is_same_v<Kind, program::Send> ||
                               std::is_same_v<Kind, program::Recv>) {
            return program_.streams[instruction.stream.index()];
          } else {
            return {};
          }
        },
        instruction.what);
  }

  struct Awaited {
    program::StreamId stream;
    const Instruction* behind = nullptr;  // what stands before the record; null: nothing
  };

  void set(Work& work, const program::Compute& compute) const {
    work.work_class = class_of(op::work_class(compute.op));
    const std::vector<Shape> shapes = program_.operand_shapes(compute);
    work.implementation = compute.implementation;
    work.flops = op::flops(compute.op, shapes);
    work.bytes = op::traffic_bytes(compute.op, shapes, compute.dtype);
  }

  template <program::AnyCollective Kind>
  void set(Work& work, const Kind& what) {
    std::int64_t payload_bytes = 0;
    program::for_each_tensor(what, [&](const program::Slice& from, const program::Slice& to) {
      payload_bytes += std::max(from.bytes(), to.bytes());
    });
    set_collective(work, what.group, payload_bytes);
  }
  void set(Work& work, const program::Send& send) {
    set_message(work, program_.rank, send.peer, send.tag, send.from.bytes());
  }
  void set(Work& work, const program::Recv& recv) {
    set_message(work, recv.peer, program_.rank, recv.tag, recv.to.bytes());
  }

  void set(Work& work, const program::Wait& wait) const {
    const Awaited& awaited = recorded_[wait.event.index()];
    work.work_class = WorkClass::wait;
    work.awaited = program_.streams[awaited.stream.index()];
    if (has_texts())
      work.text = awaited.behind == nullptr ? work.awaited
                                            : short_text(*awaited.behind) + " on " + work.awaited;
    if (awaited.behind != nullptr) work.traffic = traffic_of(*awaited.behind);
  }
  void set(Work& work, const program::Feed& feed) const {
    work.work_class = WorkClass::feed;
    work.bytes = static_cast<double>(feed.to.bytes());
  }
  void set(Work& work, const program::Copy& copy) const { set_copy(work, copy.from.bytes()); }
  void set(Work& work, const program::Pack& pack) const { set_copy(work, pack.from.bytes()); }
  void set(Work& work, const program::Unpack& unpack) const { set_copy(work, unpack.to.bytes()); }
  void set(Work& /*work*/, const program::Record& /*record*/) const {}

  static void set_copy(Work& work, std::int64_t bytes) {
    work.work_class = WorkClass::copy;
    work.bytes = 2 * static_cast<double>(bytes);
  }

  /// The k-th collective of the same ranks on the same stream is one, whatever else they do.
  void set_collective(Work& work, program::GroupId id, std::int64_t payload_bytes) {
    const program::Group& group = program_.groups[id.index()];
    work.axis = program_.axes_text(group);
    if (group.members.size() == 1) return set_copy(work, payload_bytes);
    set_communication(work, payload_bytes);
    if (!has_texts()) return;
    std::string ranks;
    for (const Rank rank : group.members)
      ranks += format("{}{}", ranks.empty() ? "" : " ", rank.index());
    set_meeting(work, format("{} ranks {}", program_.streams[work.stream], ranks));
  }
  void set_message(Work& work, Rank from, Rank to, std::int64_t tag, std::int64_t bytes) {
    set_communication(work, bytes);
    if (has_texts())
      set_meeting(work, format("rank {} to {} tag {}", from.index(), to.index(), tag));
  }
  static void set_communication(Work& work, std::int64_t bytes) {
    work.work_class = WorkClass::communication;
    work.bytes = static_cast<double>(bytes);
  }
  void set_meeting(Work& work, const std::string& who) {
    work.meeting = format("{} number {}", who, meetings_[who]++);
  }

  const Program& program_;
  Words words_;
  std::vector<Work> works_;
  std::size_t task_ = 0;
  std::vector<const Instruction*> last_;  // by stream, records and waits apart
  std::vector<Awaited> recorded_;         // by event
  std::map<std::string, std::int64_t> meetings_;
};

}  // namespace

std::vector<Work> describe_work(const Program& program, Words words) {
  Description description(program, words);

  for (std::size_t i = 0; i < program.instructions.size(); ++i) description.add(i);
  return std::move(description).works();
}

}  // namespace fourfold::trace
