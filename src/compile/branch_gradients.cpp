#include "compile/branch_gradients.h"

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "op/table.h"

namespace fourfold::compile {
namespace {

using program::Instruction;
using program::Program;
using program::TaskKind;

bool is_wanted(const plan::Plan& plan, const machine::Target& target) {
  switch (plan.overlap.weight_gradients) {
    case plan::WeightGradients::automatic:
      return target.compute_streams > 1;
    case plan::WeightGradients::beside:
      return true;
    case plan::WeightGradients::in_turn:
      break;
  }
  return false;
}

/// True if somebody asks for what the buffer holds other than the instructions of the program that
/// read it: the host, the next program, or another mesh, to which any slot of a value may go.
bool is_asked_for(const program::Buffer& buffer, const std::set<std::string>& handed_over) {
  if (buffer.role == program::BufferRole::gradient) return false;
  return buffer.region == program::Region::persistent ||
         buffer.role == program::BufferRole::output ||
         handed_over.contains(buffer.name.substr(0, buffer.name.find('#')));
}

/// Names of values of the program that leave the mesh where they are made.
std::set<std::string> handed_over(const Program& program, const plan::Plan& plan) {
  std::set<std::string> names;
  for (const plan::Edge& edge : plan.edges)
    if (edge.graph == program.kind) names.insert(edge.value);
  return names;
}

/// True for what only carries tensors on: moves them, rounds them or adds them up.
bool carries(const Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  return compute == nullptr || op::is_sum_of_two(compute->op) || op::is_rounding(compute->op) ||
         op::is_widening(compute->op) || op::is_sum_with_rounded(compute->op);
}

/// Goes through a program from its end to tell what is urgent: what is asked for, what a forward
/// pass reads, and in a backward pass all that is computed with, however late.
class Urgency {
 public:
  Urgency(const Program& program, const plan::Plan& plan)
      : program_(program), is_urgent_(program.buffers.size()), is_asked_for_(is_urgent_) {
    const std::set<std::string> names = handed_over(program, plan);
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      is_asked_for_[b] = is_asked_for(program.buffers[b], names);
    is_urgent_ = is_asked_for_;
  }

  /// By instruction: nothing that it makes is urgent. Only of backward tasks.
  std::vector<bool> run() {
    std::vector<bool> may_lag(program_.instructions.size(), false);
    for (auto task = program_.tasks.rbegin(); task != program_.tasks.rend(); ++task) {
      const bool is_last = task->kind == TaskKind::update || task->kind == TaskKind::gradient_sync;
      const bool is_backward =
          task->kind == TaskKind::backward || task->kind == TaskKind::weight_backward;
      for (std::size_t i = task->end; !is_last && i-- > task->begin;)
        may_lag[i] = pass(program_.instructions[i], is_backward);
    }
    return may_lag;
  }

 private:
  bool pass(const Instruction& instruction, bool may_lag) {
    const std::vector<program::Access> accesses = program::accesses(instruction);
    for (const program::Access& access : accesses)
      if (access.role != op::Role::read && is_urgent_[access.slice.buffer.index()]) may_lag = false;
    for (const program::Access& access : accesses)
      if (const std::size_t b = access.slice.buffer.index();
          access.role == op::Role::write && !is_asked_for_[b] &&
          access.slice.bytes() == program_.buffers[b].size_bytes)
        is_urgent_[b] = false;
    // A message that is sent is of what is asked for, or of a gradient.
    const bool is_sent = std::holds_alternative<program::Send>(instruction.what);
    if (is_sent || (may_lag && carries(instruction))) return may_lag;
    for (const program::Access& access : accesses)
      if (access.role == op::Role::read) is_urgent_[access.slice.buffer.index()] = true;
    return may_lag;
  }

  const Program& program_;
  std::vector<bool> is_urgent_;     // by buffer: what it holds by then
  std::vector<bool> is_asked_for_;  // by buffer
};

/// True for what a stream that computes does by itself.
bool is_of_one_rank(const Instruction& instruction) {
  return std::holds_alternative<program::Compute>(instruction.what) ||
         std::holds_alternative<program::Pack>(instruction.what) ||
         std::holds_alternative<program::Unpack>(instruction.what) ||
         std::holds_alternative<program::Copy>(instruction.what);
}

}  // namespace

Program branch_gradients(Program program, const plan::Plan& plan, const machine::Target& target) {
  if (!is_wanted(plan, target)) return program;
  constexpr program::StreamId math{std::size_t{0}};
  const program::StreamId gradients(program.streams.size());
  const std::vector<bool> may_lag = Urgency(program, plan).run();
  bool any = false;
  for (std::size_t i = 0; i < may_lag.size(); ++i) {
    Instruction& instruction = program.instructions[i];
    if (!may_lag[i] || instruction.stream != math || !is_of_one_rank(instruction)) continue;
    instruction.stream = gradients;
    any = true;
  }
  if (any) program.streams.emplace_back(program::gradient_stream);
  return program;
}

}  // namespace fourfold::compile
