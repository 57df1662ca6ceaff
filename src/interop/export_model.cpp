#include "interop/export_model.h"

#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "checkpoint/model_files.h"

namespace fourfold::interop {
namespace {

using checkpoint::ElementType;
using checkpoint::StoredModel;
using checkpoint::TensorInfo;
using Bytes = std::vector<std::byte>;

std::string describe(ElementType dtype, const Shape& shape) {
  return format("{} {}", safetensors_name(dtype), to_string(shape));
}

/// One line for each tensor of the model that the files lack, have too many, or have otherwise.
std::string list_differences(const StoredModel& model, const std::vector<HubTensor>& tensors) {
  std::string lines;
  std::set<std::string_view> known;
  for (const HubTensor& tensor : tensors) {
    if (tensor.is_zero || !known.insert(tensor.ours).second) continue;
    const StoredModel::Tensor* stored = model.find(tensor.ours);
    if (stored == nullptr)
      lines += format("\n  {}: missing, the configuration has {}", tensor.ours,
                      to_string(tensor.our_shape));
    else if (stored->shape != tensor.our_shape || !stored->dtype.is_float())
      lines += format("\n  {}: {}, the configuration has {}", tensor.ours,
                      describe(stored->dtype, stored->shape), to_string(tensor.our_shape));
  }
  for (const StoredModel::Tensor& stored : model.tensors())
    if (!known.contains(stored.name))
      lines += format("\n  {}: {}, the configuration has none of this name",
                      Json(stored.name).dump(), describe(stored.dtype, stored.shape));
  return lines;
}

/// A stored tensor's values in the dtype that is wanted.
Bytes converted(StoredModel& model, const std::string& name, ElementType dtype) {
  const StoredModel::Tensor& tensor = *model.find(name);
  const Bytes stored = model.read(tensor);
  Bytes result(static_cast<std::size_t>(tensor.shape.elements() * checkpoint::size_bytes(dtype)));
  const std::int64_t overflows = convert_elements(stored, tensor.dtype, result, dtype);
  if (overflows > 0)
    throw UserError(ExitCode::bad_config,
                    format("{}: {} of its values are too large for {}; choose --dtype bf16 or fp32",
                           name, overflows, safetensors_name(dtype)));
  return result;
}

/// Their values.
Bytes values_of(StoredModel& model, const HubTensor& tensor, ElementType dtype) {
  const auto element_bytes = static_cast<std::size_t>(checkpoint::size_bytes(dtype));
  if (tensor.is_zero)
    return Bytes(static_cast<std::size_t>(tensor.their_shape.elements()) * element_bytes);
  return taken_out(tensor, converted(model, tensor.ours, dtype), element_bytes);
}

/// Cuts the list, in its order, where a file would become larger than allowed.
std::vector<std::vector<HubTensor>> split_into_files(const std::vector<HubTensor>& tensors,
                                                     std::int64_t element_bytes,
                                                     std::int64_t max_file_bytes) {
  std::vector<std::int64_t> sizes;
  for (const HubTensor& tensor : tensors)
    sizes.push_back(tensor.their_shape.elements() * element_bytes);
  std::vector<std::vector<HubTensor>> files;
  auto next = tensors.begin();
  for (const std::size_t end : checkpoint::ends_of_files(sizes, max_file_bytes)) {
    const auto stop = tensors.begin() + static_cast<std::ptrdiff_t>(end);
    files.emplace_back(next, stop);
    next = stop;
  }
  return files;
}

/// What a file is to hold, by the names of Hugging Face.
std::vector<TensorInfo> infos_of(const std::vector<HubTensor>& tensors, ElementType dtype) {
  std::vector<TensorInfo> infos;
  for (const HubTensor& tensor : tensors)
    infos.push_back({tensor.theirs, dtype, tensor.their_shape});
  return infos;
}

void write_file(StoredModel& model, const std::vector<HubTensor>& tensors, ElementType dtype,
                const std::string& path) {
  std::map<std::string, const HubTensor*> by_name;
  for (const HubTensor& tensor : tensors) by_name[tensor.theirs] = &tensor;
  Bytes bytes;
  write_safetensors(path, infos_of(tensors, dtype), checkpoint::default_metadata(),
                    [&](const TensorInfo& info) -> std::span<const std::byte> {
                      bytes = values_of(model, *by_name.at(info.name), dtype);
                      return bytes;
                    });
}

}  // namespace

void export_hub(StoredModel& model, const model::Spec& spec, const HubOptions& options,
                const std::string& folder) {
  const HubFamily* family = hub_family_of(spec);
  require(family != nullptr, "a model that is exported is of a family of Hugging Face");
  std::vector<HubTensor> tensors = family->tensors(spec);
  const std::string differences = list_differences(model, tensors);
  if (!differences.empty())
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: does not fit its configuration:{}", model.path(), differences));
  model::Spec written = spec;
  if (has_tied_head(spec) && options.untie) {
    written = untied(written);
    tensors.push_back(tensors[0]);
    tensors.back().theirs = hub_head;
  }
  const Json config =
      family->config(written, {options.dtype, options.end_of_text, options.begin_of_text});
  const auto files =
      split_into_files(tensors, checkpoint::size_bytes(options.dtype), options.max_file_bytes);
  std::vector<checkpoint::ListedFile> listed;
  for (const std::vector<HubTensor>& file : files) {
    listed.push_back(
        {checkpoint::model_file_name(listed.size(), files.size()), infos_of(file, options.dtype)});
    write_file(model, file, options.dtype, join_path(folder, listed.back().name));
  }
  if (files.size() > 1) checkpoint::write_model_index(folder, listed);
  write_file_atomic(join_path(folder, "config.json"), config.dump() + "\n");
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id"}) generation.set(key, *config.find(key));
  if (options.ends_of_text.size() > 1)
    generation.set("eos_token_id", Json::array_of(options.ends_of_text));
  write_file_atomic(join_path(folder, "generation_config.json"), generation.dump() + "\n");
}

void export_safetensors(StoredModel& model, std::optional<ElementType> dtype,
                        const std::string& path) {
  std::vector<TensorInfo> infos;
  for (const StoredModel::Tensor& tensor : model.tensors())
    infos.push_back({tensor.name,
                     tensor.dtype.is_float() ? dtype.value_or(tensor.dtype) : tensor.dtype,
                     tensor.shape});
  Bytes bytes;
  write_safetensors(path, std::move(infos), checkpoint::default_metadata(),
                    [&](const TensorInfo& info) -> std::span<const std::byte> {
                      bytes = info.dtype.is_float() ? converted(model, info.name, info.dtype)
                                                    : model.read(*model.find(info.name));
                      return bytes;
                    });
}

}  // namespace fourfold::interop
