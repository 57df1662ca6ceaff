#include "run/find_non_finite.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::run {
namespace {

using program::BufferRole;
using program::Program;

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
}

template <class T>
double load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

double element_value(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return load<float>(at);
    case DType::f64:
      return load<double>(at);
    case DType::bf16:
      return load<BFloat16>(at);
    case DType::i32:
    case DType::i64:
    case DType::u64:
    case DType::u8:
      break;
  }
  fail_internal("only floating-point elements are looked at");
}

/// A slice with the type its writer gave it.
struct Written {
  program::Slice slice;
  DType dtype = DType::f32;
};

std::vector<Written> outputs(const Program& program, const program::Instruction& instruction) {
  std::vector<Written> list;
  if (const auto* compute = std::get_if<program::Compute>(&instruction.what)) {
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].role != op::Role::read)
        list.push_back(
            {compute->slices[i], op::element_dtype(operands[i].element, compute->dtype)});
  } else {
    for (const program::Access& access : program::accesses(instruction))
      if (access.role != op::Role::read)
        list.push_back({access.slice, program.buffer(access.slice.buffer).dtype});
  }
  std::erase_if(list, [](const Written& written) { return !is_floating(written.dtype); });
  return list;
}

class Search {
 public:
  Search(Executor& executor, const op::StepBlock& step) : executor_(executor), step_(step) {}

  const std::optional<NonFinite>& found() const { return found_; }

  void look_at_state(const Program& program) {
    if (!std::isfinite(step_.lr)) found_ = NonFinite{{}, {}, "step.lr", 0, step_.lr, 1};
    for (std::size_t i = 0; i < program.buffers.size() && !found_; ++i) {
      const program::Buffer& buffer = program.buffers[i];
      if (program::is_learned(buffer.role) && is_floating(buffer.dtype))
        look_at(program, {program.whole(program::BufferId(i)), buffer.dtype});
    }
  }

  void look_behind(const Program& program, std::size_t instruction) {
    forbid_update(program, program.instructions[instruction]);
    if (found_) return;
    for (const Written& written : outputs(program, program.instructions[instruction])) {
      look_at(program, written);
      if (!found_) continue;
      found_->instruction = instruction;
      found_->name = program::name(program.instructions[instruction]);
      return;
    }
  }

 private:
  void look_at(const Program& program, const Written& written) {
    const program::Slice& slice = written.slice;
    const auto memory = executor_.read(program.buffer(slice.buffer), step_.step & 1);
    const std::byte* start = memory.data();
    const std::int64_t element_bytes = size_bytes(written.dtype);
    for (std::int64_t row = 0; row < slice.rows; ++row)
      for (std::int64_t at = 0; at < slice.row_bytes; at += element_bytes) {
        const std::int64_t offset = slice.offset_bytes + row * slice.pitch_bytes + at;
        const double value = element_value(start + offset, written.dtype);
        if (std::isfinite(value)) continue;
        if (!found_)
          found_ = NonFinite{
              {},    {}, field_or_buffer(program, slice.buffer, offset), offset / element_bytes,
              value, 0};
        ++found_->count;
      }
  }

  static std::string field_or_buffer(const Program& program, program::BufferId id,
                                     std::int64_t offset) {
    const program::Buffer& buffer = program.buffer(id);
    if (buffer.role == BufferRole::result_block)
      for (const op::BlockField& field : op::result_fields)
        if (field.offset_bytes == static_cast<std::size_t>(offset)) return std::string(field.name);
    return buffer.name;
  }

  /// After the instruction that decides, the decision is taken back: the search never changes
  /// weights, even if the fault does not come again.
  void forbid_update(const Program& program, const program::Instruction& instruction) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr || !std::holds_alternative<op::UpdateControl>(compute->op)) return;
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].name != "applied") continue;
      const program::Slice& applied = compute->slices[i];
      const auto block = executor_.bytes(program.buffer(applied.buffer), step_.step & 1);
      std::memset(block.data() + applied.offset_bytes, 0,
                  static_cast<std::size_t>(applied.bytes()));
    }
  }

  Executor& executor_;
  const op::StepBlock& step_;
  std::optional<NonFinite> found_;
};

}  // namespace

std::string NonFinite::text() const {
  const std::string_view kind = std::isnan(value) ? "NaN" : value > 0 ? "+infinity" : "-infinity";
  const std::string where = buffer.starts_with("step.") || buffer.starts_with("result.")
                                ? buffer
                                : format("element {} of {}", element, buffer);
  const std::string more = count > 1 ? format(", the first of {} such", count) : "";
  if (!instruction) return format("{} was {} before the step{}", where, kind, more);
  return format("{} (instruction {}) wrote {} into {}{}", name, *instruction, kind, where, more);
}

std::optional<NonFinite> find_non_finite(Executor& executor, std::string_view program,
                                         const op::StepBlock& step, Feeder* feeder) {
  Search search(executor, step);
  const Program& searched = executor.bundle().at(program);
  search.look_at_state(searched);
  // Where others take part in its collectives, a rank that has found something goes on to the end.
  if (search.found() && searched.world == 1) return search.found();
  executor.run_stepwise(program, step, feeder,
                        [&](const Program& running, std::size_t instruction) {
                          search.look_behind(running, instruction);
                        });
  return search.found();
}

}  // namespace fourfold::run
