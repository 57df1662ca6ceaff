#include "checkpoint/load_model.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace fourfold::checkpoint {
namespace {

std::string describe_stored(ElementType dtype, const Shape& shape) {
  return format("{} {}", safetensors_name(dtype), to_string(shape));
}

/// One line for each tensor that the file lacks, has too many, or has otherwise than the program.
std::string list_differences(const StoredModel& model, const JobState& state) {
  std::map<std::string_view, const StoredModel::Tensor*> in_file;
  for (const StoredModel::Tensor& tensor : model.tensors()) in_file[tensor.name] = &tensor;
  std::string lines;
  for (const program::Buffer& parameter : state.tensors) {
    if (parameter.role != program::BufferRole::parameter) continue;
    const std::string expected = describe_stored(parameter.dtype, parameter.global);
    const auto found = in_file.extract(parameter.name);
    if (found.empty()) {
      lines += format("\n  {}: missing in the file, the model has {}", parameter.name, expected);
    } else if (const auto got = describe_stored(found.mapped()->dtype, found.mapped()->shape);
               got != expected) {
      lines += format("\n  {}: {} in the file, the model has {}", parameter.name, got, expected);
    }
  }
  if (!state.is_whole) return lines;
  for (const auto& [name, tensor] : in_file)
    lines += format("\n  {}: {} in the file, the model has none of this name", json_quoted(name),
                    describe_stored(tensor->dtype, tensor->shape));
  return lines;
}

}  // namespace

void require_fit(const StoredModel& model, const JobState& state) {
  const std::string differences = list_differences(model, state);
  if (!differences.empty())
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: does not fit the model; use the configuration it was trained with:{}",
               model.path(), differences));
}

void load_model(StoredModel& model, const program::Program& program, const BufferBytes& bytes_of) {
  require_fit(model, program);
  for (const StateTensor& part : state_of(program)) {
    const program::Buffer& parameter = *part.buffer;
    const bool is_average = parameter.role == program::BufferRole::average;
    if (parameter.role != program::BufferRole::parameter && !is_average) continue;
    const std::string_view name =
        is_average ? program::averaged_name(parameter.name) : parameter.name;
    if (name.empty()) continue;  // an average of something else, which no model file has
    const StoredModel::Tensor* tensor = model.find(name);
    require(tensor != nullptr, "a model without differences holds every parameter");
    const std::vector<std::byte> whole = model.read(*tensor);
    const HostView<std::byte> memory = bytes_of(parameter);
    std::fill_n(memory.data(), memory.size(), std::byte{0});
    copy_box(part.held, whole_box(parameter.global), whole, part.memory, memory,
             size_bytes(parameter.dtype));
  }
}

}  // namespace fourfold::checkpoint
