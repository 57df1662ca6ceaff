#include "run/find_non_finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
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
  bool may_be_none = false;  // -infinity says: the maximum of nothing
};

std::vector<Written> outputs(const Program& program, const program::Instruction& instruction) {
  std::vector<Written> list;
  if (const auto* compute = std::get_if<program::Compute>(&instruction.what)) {
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].role != op::Role::read)
        list.push_back({compute->slices[i], op::element_dtype(operands[i].element, compute->dtype),
                        compute->op.is<op::LogitMax>()});
  } else {
    for (const program::Access& access : program::accesses(instruction))
      if (access.role != op::Role::read)
        list.push_back({access.slice, program.buffer(access.slice.buffer).dtype});
  }
  std::erase_if(list, [](const Written& written) { return !is_floating(written.dtype); });
  return list;
}

/// True if both have a byte in common, in memory.
bool overlap(const Program& program, const program::Slice& a, const program::Slice& b) {
  const program::Buffer &first = program.buffer(a.buffer), &second = program.buffer(b.buffer);
  return first.region == second.region &&
         first.offset_bytes < second.offset_bytes + second.space_bytes() &&
         second.offset_bytes < first.offset_bytes + first.space_bytes();
}

/// What a computation reads and does not write.
std::vector<Written> inputs(const Program& program, const program::Compute& compute,
                            const std::vector<Written>& written) {
  std::vector<Written> list;
  const op::Operands operands = op::operands(compute.op);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Written read = {compute.slices[i], op::element_dtype(operands[i].element, compute.dtype)};
    const auto takes_its_place = [&](const Written& other) {
      return overlap(program, read.slice, other.slice);
    };
    if (operands[i].role == op::Role::read && is_floating(read.dtype) &&
        std::ranges::none_of(written, takes_its_place))
      list.push_back(read);
  }
  return list;
}

/// The threads of all streams call `look_behind`.
class Search {
 public:
  Search(Executor& executor, const Program& program, const op::StepBlock& step)
      : executor_(executor), program_(program), step_(step), places_(serial_places(program)) {}

  const std::optional<NonFinite>& found() const { return found_; }

  void look_at_state() {
    if (!std::isfinite(step_.lr)) found_ = NonFinite{{}, {}, "step.lr", 0, step_.lr, 1, {}};
    for (std::size_t i = 0; i < program_.buffers.size() && !found_; ++i) {
      const program::Buffer& buffer = program_.buffers[i];
      if (program::is_learned(buffer.role) && is_floating(buffer.dtype))
        found_ = look_at({program_.whole(program::BufferId(i)), buffer.dtype});
    }
  }

  void look_behind(std::size_t index) {
    const program::Instruction& instruction = program_.instructions[index];
    forbid_update(instruction);
    SerialPlace place = places_[index];
    if (!is_first(place)) return;
    const std::vector<Written> written = outputs(program_, instruction);
    for (const Written& one : written) {
      std::optional<NonFinite> found = look_at(one);
      if (!found) continue;
      if (place.phase == SerialPlace::Phase::update)
        place.is_passed_on = passes_on(instruction, written);
      found->instruction = index;
      found->name = program::name(instruction);
      found->place = place;
      const std::lock_guard lock(mutex_);
      if (!found_ || place < found_->place) found_ = std::move(found);
      return;
    }
  }

 private:
  bool is_first(const SerialPlace& place) {
    const std::lock_guard lock(mutex_);
    return !found_ || place < found_->place;
  }

  bool passes_on(const program::Instruction& instruction, const std::vector<Written>& written) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) return true;
    return std::ranges::any_of(inputs(program_, *compute, written),
                               [&](const Written& read) { return look_at(read).has_value(); });
  }

  std::optional<NonFinite> look_at(const Written& written) {
    const program::Slice& slice = written.slice;
    const auto memory = executor_.read(program_.buffer(slice.buffer), step_.step & 1);
    const std::byte* start = memory.data();
    const std::int64_t element_bytes = size_bytes(written.dtype);
    std::optional<NonFinite> found;
    for (std::int64_t row = 0; row < slice.rows; ++row)
      for (std::int64_t at = 0; at < slice.row_bytes; at += element_bytes) {
        const std::int64_t offset = slice.offset_bytes + row * slice.pitch_bytes + at;
        const double value = element_value(start + offset, written.dtype);
        if (std::isfinite(value) || (written.may_be_none && std::isinf(value) && value < 0))
          continue;
        if (!found)
          found = NonFinite{
              {}, {}, field_or_buffer(slice.buffer, offset), offset / element_bytes, value, 0, {}};
        ++found->count;
      }
    return found;
  }

  std::string field_or_buffer(program::BufferId id, std::int64_t offset) const {
    const program::Buffer& buffer = program_.buffer(id);
    if (buffer.role == BufferRole::result_block)
      for (const op::BlockField& field : op::result_fields)
        if (field.offset_bytes == static_cast<std::size_t>(offset)) return std::string(field.name);
    return buffer.name;
  }

  /// After the instruction that decides, the decision is taken back: the search never changes
  /// weights, even if the fault does not come again.
  void forbid_update(const program::Instruction& instruction) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr || !compute->op.is<op::UpdateControl>()) return;
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].name != "applied") continue;
      const program::Slice& applied = compute->slices[i];
      const auto block = executor_.bytes(program_.buffer(applied.buffer), step_.step & 1);
      std::memset(block.data() + applied.offset_bytes, 0,
                  static_cast<std::size_t>(applied.bytes()));
    }
  }

  Executor& executor_;
  const Program& program_;
  const op::StepBlock& step_;
  const std::vector<SerialPlace> places_;
  std::mutex mutex_;  // of what follows, while the program runs
  std::optional<NonFinite> found_;
};

/// Digits whose order is the order of the places.
std::string key_of(const SerialPlace& place) {
  return format("{}{:019}{}{:019}{}{:019}", static_cast<int>(place.phase), place.micro, place.pass,
                place.stage, static_cast<int>(place.is_passed_on), place.number);
}

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

std::optional<NonFinite> find_non_finite(Executor& executor, op::ProgramKind program,
                                         const op::StepBlock& step, Feeder* feeder) {
  const Program& searched = executor.bundle().at(program);
  Search search(executor, searched, step);
  search.look_at_state();
  // Where others take part in its collectives, a rank that has found something goes on to the end.
  if (search.found() && searched.world == 1) return search.found();
  executor.run_watched(program, step, feeder, [&](const Program&, std::size_t instruction) {
    search.look_behind(instruction);
  });
  return search.found();
}

std::optional<std::string> first_of_all(const std::optional<NonFinite>& found, comm::World& world) {
  const std::string none = "none";  // after all digits
  const std::vector<std::string> keys = world.all_gather(found ? key_of(found->place) : none);
  const std::vector<std::string> texts = world.all_gather(found ? found->text() : none);
  const auto first = std::ranges::min_element(keys);
  if (*first == none) return std::nullopt;
  const std::ptrdiff_t rank = first - keys.begin();
  return format("rank {}: {}", rank, texts[static_cast<std::size_t>(rank)]);
}

}  // namespace fourfold::run
