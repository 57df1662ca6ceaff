#include "compile/fuse_norm_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::BufferId;
using program::Compute;
using program::Program;
using program::Slice;

template <class Row>
bool is_row(const Compute* one) {
  return one != nullptr && one->op.is<Row>();
}

// Places among the operands of op::GroupNormMoments, op::SiluGradient, op::GroupNormApply and
// op::GroupNormApplyGradient.
constexpr std::size_t of_x = 0, of_moments = 1;
constexpr std::size_t silu_x = 0, silu_y_grad = 1, silu_x_grad = 2;
constexpr std::size_t norm_y = 4;
constexpr std::size_t apply_y_grad = 2;

class MomentSharer : private Neighbours {
 public:
  explicit MomentSharer(Program& program)
      : Neighbours(program), program_(program), gone_(program.instructions.size(), false) {}

  void run() {
    for_each_compute([&](const Compute& one, std::size_t index) {
      if (!is_row<op::GroupNormMoments>(&one)) return;
      if (const auto first = first_moments(index)) share(*first, index);
    });
    erase(program_, gone_);
  }

 private:
  /// The earlier instruction of the task that makes the same moments.
  std::optional<std::size_t> first_moments(std::size_t index) const {
    const Compute& one = *compute(index);
    const auto writer = uses().writer(one.slices[of_x], index);
    if (!writer) return std::nullopt;
    for (const std::size_t reader : uses().of_value(one.slices[of_x], *writer)) {
      if (reader >= index) return std::nullopt;
      const Compute* other = compute(reader);
      if (is_row<op::GroupNormMoments>(other) && other->op == one.op && alike(reader, index))
        return reader;
    }
    return std::nullopt;
  }

  void share(std::size_t first, std::size_t again) {
    const Slice from = compute(again)->slices[of_moments], to = compute(first)->slices[of_moments];
    if (role_of(from.buffer) != program::BufferRole::activation) return;
    const std::vector<std::size_t> readers = uses().of_value(from, again);
    for (const std::size_t reader : readers)
      if (!only_reads(reader, from)) return;
    if (!readers.empty() && !uses().is_kept(to, first, readers.back() + 1)) return;
    gone_[again] = true;
    for (const std::size_t reader : readers)
      std::ranges::replace(std::get<Compute>(program_.instructions[reader].what).slices, from, to);
  }

  /// True for a computation that touches nothing of the slice but reads all of it.
  bool only_reads(std::size_t index, const Slice& slice) const {
    if (compute(index) == nullptr) return false;
    return std::ranges::all_of(program::accesses(program_.instructions[index]),
                               [&](const program::Access& access) {
                                 return access.slice.buffer != slice.buffer ||
                                        (access.role == op::Role::read && access.slice == slice);
                               });
  }

  Program& program_;
  std::vector<bool> gone_;
};

class SiluRepeater : private Neighbours {
 public:
  explicit SiluRepeater(Program& program)
      : Neighbours(program), program_(program), count_(program.instructions.size()) {}

  void run() {
    for (std::size_t i = 0; i < count_; ++i)
      if (is_row<op::GroupNormApplyGradient>(compute(i))) repeat(i);
    std::vector<Goal> goals;
    for (std::size_t i = 0; i < count_; ++i) goals.push_back(Goal::own(i));
    for (const std::size_t reader : before_) goals.push_back(Goal::before(reader));
    rearrange(program_, goals);
  }

 private:
  template <class Row>
  std::optional<std::size_t> maker(std::size_t reader, std::size_t operand) const {
    const auto writer = uses().writer(compute(reader)->slices[operand], reader);
    return writer && is_row<Row>(compute(*writer)) && alike(*writer, reader) ? writer
                                                                             : std::nullopt;
  }

  void repeat(std::size_t reader) {
    const auto silu = maker<op::SiluGradient>(reader, apply_y_grad);
    if (!silu || maker<op::Dropout>(*silu, silu_y_grad)) return;
    const auto norm = maker<op::GroupNormApply>(*silu, silu_x);
    if (!norm || !is_read_by_sums_too(*silu, reader) || !may_repeat(*norm, reader) ||
        !may_repeat(*silu, reader))
      return;
    Compute again = *compute(*norm), gradient = *compute(*silu);
    gradient.slices[silu_x] = again.slices[norm_y] = copy_of(again.slices[norm_y]);
    gradient.slices[silu_x_grad] = copy_of(gradient.slices[silu_x_grad]);
    std::get<Compute>(program_.instructions[reader].what).slices[apply_y_grad] =
        gradient.slices[silu_x_grad];
    const program::StreamId stream = program_.instructions[reader].stream;
    for (Compute* const copy : {&again, &gradient}) {
      program_.instructions.push_back({stream, std::move(*copy)});
      before_.push_back(reader);
    }
  }

  /// True if the gradient is read by the sums that come first, and by `reader`, alone.
  bool is_read_by_sums_too(std::size_t silu, std::size_t reader) const {
    const std::vector<std::size_t> readers =
        uses().of_value(compute(silu)->slices[silu_x_grad], silu);
    return readers.size() == 2 && is_row<op::GroupNormSums>(compute(readers[0])) &&
           readers[1] == reader;
  }

  /// True if an instruction reads at `reader` what it read, and its result has a buffer of its own.
  bool may_repeat(std::size_t index, std::size_t reader) const {
    const Compute& one = *compute(index);
    const op::Operands operands = op::operands(one.op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Slice& slice = one.slices[i];
      const program::Buffer& buffer = program_.buffer(slice.buffer);
      const bool may = operands[i].role == op::Role::read
                           ? uses().is_kept(slice, index, reader)
                           : buffer.role == program::BufferRole::activation && slice.rows == 1 &&
                                 slice.bytes() == buffer.space_bytes();
      if (!may) return false;
    }
    return true;
  }

  /// The same place in a buffer of its own, which all micro-batches have in common.
  Slice copy_of(const Slice& slice) {
    const auto [copy, is_new] =
        copies_.try_emplace(slice.buffer, BufferId(program_.buffers.size()));
    if (is_new) {
      program::Buffer buffer = program_.buffer(slice.buffer);
      buffer.name = format("{}/repeated", buffer.name);
      program_.buffers.push_back(std::move(buffer));
    }
    Slice made = slice;
    made.buffer = copy->second;
    return made;
  }

  Program& program_;
  std::size_t count_;
  std::vector<std::size_t> before_;  // by instruction that was added: the one that it stands before
  std::map<BufferId, BufferId> copies_;
};

}  // namespace

Program share_moments(Program program) {
  MomentSharer(program).run();
  return program;
}

Program repeat_silu_gradients(Program program) {
  SiluRepeater(program).run();
  return program;
}

}  // namespace fourfold::compile
