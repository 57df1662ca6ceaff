// Which files of a folder hold a model: model.safetensors, or several files and an index of them,
// named and written as Hugging Face's. Not what a tensor means: load_model.h, interop/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/stored_model.h"

namespace fourfold::checkpoint {

inline constexpr std::string_view single_model_file = "model.safetensors";
inline constexpr std::string_view model_index_file = "model.safetensors.index.json";

/// The name of file number `file` of so many: "model-00002-of-00003.safetensors".
std::string model_file_name(std::size_t file, std::size_t files);
/// True for each name that a model's files have, that of the index included.
bool is_model_file(std::string_view name);

/// Sizes of tensors in a row, cut where a file would become larger than allowed: the end of each
/// file, as a number of tensors. A tensor that is larger has a file of its own.
std::vector<std::size_t> ends_of_files(std::span<const std::int64_t> tensor_bytes,
                                       std::int64_t max_file_bytes);

/// The tensors of one file of several.
struct ListedFile {
  std::string name;
  std::vector<TensorInfo> tensors;
};
/// Writes the index of a model, whole or not at all; `metadata` comes beside the total size.
/// Errors: UserError(storage).
void write_model_index(const std::string& folder, std::span<const ListedFile> files,
                       const Metadata& metadata = {});

/// The file or the index that stands for the model of a folder: its path. A single file comes
/// first.
std::optional<std::string> find_model(const std::string& folder);
/// The names of all files of models in a folder, the index first: who removes or moves them in this
/// order leaves no index without its files.
std::vector<std::string> list_model_files(const std::string& folder);

/// The tensors of what find_model found. Errors: UserError(no_checkpoint), also where an index and
/// its files do not fit.
std::unique_ptr<StoredModel> open_model(const std::string& path);
/// The steps that it has done, where its metadata has them as "step". Errors:
/// UserError(no_checkpoint) for a file that is no model.
std::optional<std::int64_t> step_of_model(const std::string& path);
/// Why what find_model found is not a whole model of that step: a file that is missing, cut short
/// or damaged, or that belongs to a model of another step. None where it is; a step that is not
/// said is that one.
std::optional<std::string> fault_of_model(const std::string& path, std::int64_t step);

}  // namespace fourfold::checkpoint
