#include "interop/import_gpt2.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/small_file.h"
#include "checkpoint/model_files.h"
#include "interop/gpt2_tensors.h"

namespace fourfold::interop {
namespace {

using checkpoint::StoredModel;
using checkpoint::TensorInfo;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::no_checkpoint, format("{}: {}", path, what));
}

std::string read_text(const std::string& path, std::size_t most_bytes) {
  auto text = read_small_file(path, most_bytes);
  if (const auto* fault = std::get_if<FileFault>(&text))
    fail(path, format("{}; {}", fault->reason, fault->advice));
  return std::get<std::string>(std::move(text));
}

std::unique_ptr<StoredModel> open_tensors(const std::string& folder) {
  if (const auto found = checkpoint::find_model(folder)) return checkpoint::open_model(*found);
  const bool has_pickle = file_exists(join_path(folder, "pytorch_model.bin"));
  fail(folder, format("holds neither {} nor {}; {}", checkpoint::single_model_file,
                      checkpoint::model_index_file,
                      has_pickle ? "save the model again with safe_serialization=True"
                                 : "expected a folder with a model of Hugging Face"));
}

/// The tensor of a file, with or without the prefix.
const StoredModel::Tensor* find(const StoredModel& model, const Gpt2Tensor& tensor) {
  const StoredModel::Tensor* found = model.find(gpt2_full_name(tensor));
  return found != nullptr ? found : model.find(tensor.theirs);
}

/// A head beside an embedding that it is tied to may be there, if it is the same.
void check_tied_head(StoredModel& model, const model::GptSpec& spec) {
  const StoredModel::Tensor* head = model.find(gpt2_head);
  if (!spec.tied_head || head == nullptr) return;
  const StoredModel::Tensor* embedding = find(model, gpt2_tensors(spec).front());
  if (embedding == nullptr) return;  // said with what else is missing
  if (head->dtype != embedding->dtype || head->shape != embedding->shape ||
      model.read(*head) != model.read(*embedding))
    fail(model.path(), format("{} is not wte.weight, but the head is tied (tie_word_embeddings); "
                              "set tie_word_embeddings to false in config.json",
                              gpt2_head));
}

/// One line for each tensor that is missing, too many or of another shape.
std::string list_differences(const StoredModel& model, const model::GptSpec& spec) {
  std::string lines;
  std::set<std::string_view> known;
  if (spec.tied_head) known.insert(gpt2_head);
  const auto tensors = gpt2_tensors(spec);
  for (const Gpt2Tensor& tensor : tensors) {
    const std::string expected = to_string(tensor.their_shape);
    const StoredModel::Tensor* stored = find(model, tensor);
    if (stored == nullptr) {
      lines += format("\n  {}: missing, config.json asks for {}", gpt2_full_name(tensor), expected);
      continue;
    }
    known.insert(stored->name);
    if (stored->shape != tensor.their_shape)
      lines += format("\n  {}: {}, config.json asks for {}", Json(stored->name).dump(),
                      to_string(stored->shape), expected);
    else if (!stored->dtype.is_float())
      lines += format("\n  {}: holds {}, expected F32, F16, BF16 or F64", Json(stored->name).dump(),
                      safetensors_name(stored->dtype));
  }
  for (const StoredModel::Tensor& stored : model.tensors())
    if (!known.contains(stored.name) && !is_mask(stored.name))
      lines += format("\n  {}: {}, a GPT-2 has none of this name", Json(stored.name).dump(),
                      to_string(stored.shape));
  return lines;
}

}  // namespace

Gpt2Folder open_gpt2_folder(const std::string& folder) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  const std::string config = join_path(folder, "config.json");
  if (!file_exists(folder))
    fail(folder, "there is no such folder; expected one with a model of Hugging Face");
  Gpt2Folder result;
  result.model = parse_gpt2_config(read_text(config, most_bytes), config);
  result.tensors = open_tensors(folder);
  const std::string differences = list_differences(*result.tensors, result.model.spec);
  if (!differences.empty())
    fail(result.tensors->path(), format("does not fit {}:{}", config, differences));
  check_tied_head(*result.tensors, result.model.spec);
  return result;
}

void import_gpt2(Gpt2Folder& folder, const std::string& path) {
  std::map<std::string, const Gpt2Tensor*> by_name;
  const auto tensors = gpt2_tensors(folder.model.spec);
  std::vector<TensorInfo> infos;
  for (const Gpt2Tensor& tensor : tensors) {
    infos.push_back({tensor.ours, DType::f32, tensor.our_shape});
    by_name[tensor.ours] = &tensor;
  }
  std::vector<std::byte> bytes;
  write_safetensors(
      path, std::move(infos), checkpoint::default_metadata(),
      [&](const TensorInfo& info) -> std::span<const std::byte> {
        const Gpt2Tensor& tensor = *by_name.at(info.name);
        const StoredModel::Tensor& stored = *find(*folder.tensors, tensor);
        bytes.resize(static_cast<std::size_t>(tensor.our_shape.elements()) * sizeof(float));
        convert_elements(folder.tensors->read(stored), stored.dtype, bytes, DType::f32);
        if (tensor.is_transposed) bytes = transposed(bytes, tensor.their_shape, sizeof(float));
        return bytes;
      });
}

}  // namespace fourfold::interop
