#include "checkpoint/model_file.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/gather_tensor.h"
#include "checkpoint/safetensors.h"

namespace fourfold::checkpoint {
namespace {

std::vector<const program::Buffer*> parameters_of(const program::Program& program) {
  std::vector<const program::Buffer*> parameters;
  for (const program::Buffer& buffer : program.buffers)
    if (buffer.role == program::BufferRole::parameter) parameters.push_back(&buffer);
  return parameters;
}

HostView<const std::byte> whole_bytes(const program::Buffer& parameter,
                                      const BufferReads& bytes_of) {
  auto bytes = bytes_of(parameter);
  require(static_cast<std::int64_t>(bytes.size()) ==
              parameter.global.elements() * size_bytes(parameter.dtype),
          "a rank that saves or loads a model holds whole parameters");
  return bytes;
}

std::string describe(ElementType dtype, const Shape& shape) {
  return format("{} {}", safetensors_name(dtype), to_string(shape));
}

/// One line for each tensor that the file lacks, has too many, or has otherwise than the program.
std::string list_differences(const StoredModel& model,
                             const std::vector<const program::Buffer*>& parameters) {
  std::map<std::string_view, const StoredModel::Tensor*> in_file;
  for (const StoredModel::Tensor& tensor : model.tensors()) in_file[tensor.name] = &tensor;
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
                const BufferReads& bytes_of, comm::World* world, const Metadata& metadata) {
  std::vector<TensorView> tensors;
  std::deque<std::vector<std::byte>> gathered;
  std::deque<HostView<const std::byte>> own;
  for (const program::Buffer* parameter : parameters_of(program)) {
    std::span<const std::byte> bytes;
    if (world == nullptr) {
      own.push_back(whole_bytes(*parameter, bytes_of));
      bytes = own.back();
    } else {
      constexpr std::size_t tags = 32768;
      const Mesh& mesh = program.meshes[parameter->sharding.mesh.index()];
      gathered.push_back(gather_tensor(*world, mesh, *parameter, bytes_of(*parameter),
                                       static_cast<int>(tensors.size() % tags)));
      bytes = gathered.back();
    }
    tensors.push_back({parameter->name, parameter->dtype, parameter->global, bytes});
  }
  if (world != nullptr && world->rank().index() != 0) return;
  Metadata all = default_metadata();
  for (const auto& [key, value] : metadata) all[key] = value;
  write_safetensors(path, tensors, all);
}

std::optional<std::int64_t> step_of_model(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const Metadata& metadata = file.header().metadata();
  const auto found = metadata.find("step");
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool is_step = error == std::errc() && stop == text.data() + text.size();
  return is_step ? std::optional(step) : std::nullopt;
}

void require_fit(const StoredModel& model, const program::Program& program) {
  const std::string differences = list_differences(model, parameters_of(program));
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
    if (parameter.role != program::BufferRole::parameter) continue;
    const StoredModel::Tensor* tensor = model.find(parameter.name);
    require(tensor != nullptr, "a model without differences holds every parameter");
    const std::vector<std::byte> whole = model.read(*tensor);
    const HostView<std::byte> memory = bytes_of(parameter);
    std::fill_n(memory.data(), memory.size(), std::byte{0});
    copy_box(part.held, whole_box(parameter.global), whole, part.memory, memory,
             size_bytes(parameter.dtype));
  }
}

void load_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of) {
  load_model(*open_model_file(path), program, bytes_of);
}

}  // namespace fourfold::checkpoint
