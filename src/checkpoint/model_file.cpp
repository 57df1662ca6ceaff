#include "checkpoint/model_file.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace fourfold::checkpoint {
namespace {

std::vector<const program::Buffer*> parameters_of(const program::Program& program) {
  std::vector<const program::Buffer*> parameters;
  for (const program::Buffer& buffer : program.buffers)
    if (buffer.role == program::BufferRole::parameter) parameters.push_back(&buffer);
  return parameters;
}

std::span<std::byte> whole_bytes(const program::Buffer& parameter, const BufferBytes& bytes_of) {
  const auto bytes = bytes_of(parameter);
  require(static_cast<std::int64_t>(bytes.size()) ==
              parameter.global.elements() * size_bytes(parameter.dtype),
          "a rank that saves or loads a model holds whole parameters");
  return bytes;
}

std::string describe(DType dtype, const Shape& shape) {
  return format("{} {}", safetensors_name(dtype), to_string(shape));
}

/// One line for each tensor that the file lacks, has too many, or has otherwise than the program.
std::string list_differences(const SafetensorsHeader& header,
                             const std::vector<const program::Buffer*>& parameters) {
  std::map<std::string_view, const TensorInfo*> in_file;
  for (const TensorInfo& tensor : header.tensors()) in_file[tensor.name] = &tensor;
  std::string lines;
  for (const program::Buffer* parameter : parameters) {
    const std::string expected = describe(parameter->dtype, parameter->global);
    const auto found = in_file.extract(parameter->name);
    if (found.empty()) {
      lines += format("\n  {}: missing in the file, the model has {}", parameter->name, expected);
    } else if (const auto got = describe(found.mapped()->dtype, found.mapped()->shape);
               got != expected) {
      lines += format("\n  {}: {} in the file, the model has {}", parameter->name, got, expected);
    }
  }
  for (const auto& [name, tensor] : in_file)
    lines += format("\n  {}: {} in the file, the model has none of this name", Json(name).dump(),
                    describe(tensor->dtype, tensor->shape));
  return lines;
}

}  // namespace

void save_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of, const Metadata& metadata) {
  std::vector<TensorView> tensors;
  for (const program::Buffer* parameter : parameters_of(program))
    tensors.push_back(
        {parameter->name, parameter->dtype, parameter->global, whole_bytes(*parameter, bytes_of)});
  Metadata all = default_metadata();
  for (const auto& [key, value] : metadata) all[key] = value;
  write_safetensors(path, tensors, all);
}

void load_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of) {
  const auto file = SafetensorsFile::open(path);
  const auto parameters = parameters_of(program);
  const std::string differences = list_differences(file.header(), parameters);
  if (!differences.empty())
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: does not fit the model; use the configuration it was trained with:{}", path,
               differences));
  for (const program::Buffer* parameter : parameters) {
    const TensorInfo* tensor = file.header().find(parameter->name);
    require(tensor != nullptr, "a file without differences holds every parameter");
    file.read(*tensor, whole_bytes(*parameter, bytes_of));
  }
}

}  // namespace fourfold::checkpoint
