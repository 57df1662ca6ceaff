// rounded: whether the copy of a weight in the type of the computation is that of the weight.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/format.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// At the start of a program, but of the one that starts a run, a copy agrees with its weight: the
/// host sees to it where it has written weights. From there on it is followed.
class RoundedCheck {
 public:
  RoundedCheck(const Program& program, Report& report) : program_(program), report_(report) {}

  void run() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role == BufferRole::rounded) describe(BufferId(i));
    if (copy_of_.empty()) return;
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) step(i);
    for (const auto& [weight, index] : stale_)
      report_.fault("rounded", index,
                    format("{} is not rounded again after it", program_.buffer(weight).name));
  }

 private:
  /// A copy lies as its weight does, but for the type of its elements.
  void describe(BufferId id) {
    const Buffer& copy = program_.buffer(id);
    const auto weight = program_.find_buffer(rounded_name(copy.name));
    if (!weight || program_.buffer(*weight).role != BufferRole::parameter) {
      report_.fault("rounded", format("there is no parameter that {} is a copy of", copy.name));
      return;
    }
    const Buffer& of = program_.buffer(*weight);
    if (copy.global != of.global || copy.sharding != of.sharding || copy.blocked ||
        copy.region != of.region || copy.two_by_parity)
      report_.fault("rounded", format("{} does not lie as {} does", copy.name, of.name));
    copy_of_.emplace(*weight, id);
    weight_of_.emplace(id, *weight);
  }

  void step(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) return follow(accesses(instruction), index);
    for_each_piece(*compute, [&](const Compute& piece) {
      const std::vector<Access> list = accesses(Instruction{instruction.stream, piece});
      if (!rounds(piece, index)) follow(list, index);
    });
  }

  /// True if it writes a copy: the weight beside it, or the one that is read, is then the one it is
  /// of.
  bool rounds(const Compute& piece, std::size_t index) {
    const auto copy = op::is_rounding(piece.op) ? std::optional<std::size_t>(1)
                                                : op::operand_of(piece.op, op::State::rounded);
    if (!copy) return false;
    const std::size_t weight =
        op::is_rounding(piece.op) ? 0 : op::operand_of(piece.op, op::State::weight).value();
    const Slice &to = piece.slices[*copy], &from = piece.slices[weight];
    const auto expected = weight_of_.find(to.buffer);
    if (expected == weight_of_.end()) return false;
    if (from.buffer != expected->second)
      report_.fault("rounded", index,
                    format("{} is written as the copy of {}", program_.buffer(to.buffer).name,
                           program_.buffer(from.buffer).name));
    else if (to != program_.whole(to.buffer) || from != program_.whole(from.buffer))
      report_.fault("rounded", index,
                    format("only a part of {} is rounded", program_.buffer(from.buffer).name));
    stale_.erase(expected->second);
    return true;
  }

  void follow(const std::vector<Access>& list, std::size_t index) {
    for (const Access& access : list) {
      const BufferId id = access.slice.buffer;
      if (access.role != op::Role::read) {
        if (copy_of_.contains(id)) stale_[id] = index;
        continue;
      }
      const auto weight = weight_of_.find(id);
      if (weight == weight_of_.end()) continue;
      if (const auto written = stale_.find(weight->second); written != stale_.end())
        report_.fault("rounded", index,
                      format("{} is not {} as instruction {} has left it", program_.buffer(id).name,
                             program_.buffer(weight->second).name, written->second));
    }
  }

  const Program& program_;
  Report& report_;
  std::map<BufferId, BufferId> copy_of_, weight_of_;  // by weight, by copy
  std::map<BufferId, std::size_t> stale_;             // weights: which instruction has written them
};

}  // namespace

void check_rounded(const Program& program, Report& report) {
  RoundedCheck(program, report).run();
}

}  // namespace fourfold::verify
