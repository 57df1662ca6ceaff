#include "interop/import_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/small_file.h"
#include "checkpoint/model_files.h"

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
const StoredModel::Tensor* find(const StoredModel& files, const HubFamily& family,
                                const HubTensor& tensor) {
  const StoredModel::Tensor* found = files.find(tensor.theirs);
  return found != nullptr ? found : files.find(without_prefix(family, tensor.theirs));
}

/// A head beside an embedding that it is tied to may be there, if it is the same.
void check_tied_head(StoredModel& files, const HubModel& model) {
  const StoredModel::Tensor* head = files.find(hub_head);
  if (!has_tied_head(model.spec) || head == nullptr) return;
  const HubTensor first = model.family->tensors(model.spec).front();
  const StoredModel::Tensor* embedding = find(files, *model.family, first);
  if (embedding == nullptr) return;  // said with what else is missing
  if (head->dtype != embedding->dtype || head->shape != embedding->shape ||
      files.read(*head) != files.read(*embedding))
    fail(files.path(), format("{} is not {}, but the head is tied (tie_word_embeddings); set "
                              "tie_word_embeddings to false in config.json",
                              hub_head, without_prefix(*model.family, first.theirs)));
}

/// One line for each tensor that is missing, too many or of another shape.
std::string list_differences(const StoredModel& files, const HubModel& model) {
  std::string lines;
  std::set<std::string_view> known;
  if (has_tied_head(model.spec)) known.insert(hub_head);
  const auto tensors = model.family->tensors(model.spec);
  for (const HubTensor& tensor : tensors) {
    const std::string expected = to_string(tensor.their_shape);
    const StoredModel::Tensor* stored = find(files, *model.family, tensor);
    if (stored == nullptr) {
      lines += format("\n  {}: missing, config.json asks for {}", tensor.theirs, expected);
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
  for (const StoredModel::Tensor& stored : files.tensors())
    if (!known.contains(stored.name) &&
        !model.family->is_left_aside(without_prefix(*model.family, stored.name)))
      lines += format("\n  {}: {}, a {} has none of this name", Json(stored.name).dump(),
                      to_string(stored.shape), model.family->title);
  return lines;
}

}  // namespace

HubFolder open_hub_folder(const std::string& folder) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  const std::string config = join_path(folder, "config.json");
  if (!file_exists(folder))
    fail(folder, "there is no such folder; expected one with a model of Hugging Face");
  HubFolder result;
  result.model = parse_hub_config(read_text(config, most_bytes), config);
  result.tensors = open_tensors(folder);
  const std::string differences = list_differences(*result.tensors, result.model);
  if (!differences.empty())
    fail(result.tensors->path(), format("does not fit {}:{}", config, differences));
  check_tied_head(*result.tensors, result.model);
  return result;
}

void import_hub(HubFolder& folder, const std::string& path) {
  std::map<std::string, std::vector<const HubTensor*>> by_name;
  const auto tensors = folder.model.family->tensors(folder.model.spec);
  std::vector<TensorInfo> infos;
  for (const HubTensor& tensor : tensors) {
    auto& all = by_name[tensor.ours];
    if (all.empty()) infos.push_back({tensor.ours, DType::f32, tensor.our_shape});
    all.push_back(&tensor);
  }
  std::vector<std::byte> bytes, theirs;
  write_safetensors(
      path, std::move(infos), checkpoint::default_metadata(),
      [&](const TensorInfo& info) -> std::span<const std::byte> {
        bytes.resize(static_cast<std::size_t>(info.shape.elements()) * sizeof(float));
        for (const HubTensor* tensor : by_name.at(info.name)) {
          const StoredModel::Tensor& stored = *find(*folder.tensors, *folder.model.family, *tensor);
          theirs.resize(static_cast<std::size_t>(tensor->their_shape.elements()) * sizeof(float));
          convert_elements(folder.tensors->read(stored), stored.dtype, theirs, DType::f32);
          put_in(*tensor, std::move(theirs), bytes, sizeof(float));
        }
        return bytes;
      });
}

}  // namespace fourfold::interop
