#include "checkpoint/stored_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/shard.h"

namespace fourfold::checkpoint {
namespace {

using Tensor = StoredModel::Tensor;

bool by_name(const Tensor& a, const Tensor& b) {
  return a.name < b.name;
}

/// Moments are named by their tensor, "m/wte.weight"; the count of updates is a scalar.
bool is_parameter(const StoredTensor& tensor) {
  return tensor.name.find('/') == tensor.name.npos && tensor.shape.rank() > 0;
}

class ModelFiles final : public StoredModel {
 public:
  ModelFiles(const std::string& path, std::vector<SafetensorsFile> files)
      : StoredModel(path, list(files)), files_(std::move(files)) {
    for (const SafetensorsFile& file : files_)
      for (const TensorInfo& tensor : file.header().tensors())
        if (!places_.try_emplace(tensor.name, Place{&file, &tensor}).second)
          throw UserError(ExitCode::no_checkpoint,
                          format("{}: the tensor {} is also in another file of the model; expected "
                                 "each once, use another copy",
                                 file.path(), Json(tensor.name).dump()));
  }

  void read(const Tensor& tensor, std::span<std::byte> into) override {
    const Place& place = places_.at(tensor.name);
    place.file->read(*place.tensor, into);
  }

 private:
  struct Place {
    const SafetensorsFile* file;
    const TensorInfo* tensor;
  };
  static std::vector<Tensor> list(const std::vector<SafetensorsFile>& files) {
    std::vector<Tensor> tensors;
    for (const SafetensorsFile& file : files)
      for (const TensorInfo& tensor : file.header().tensors())
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    return tensors;
  }

  const std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;
};

class CheckpointModel final : public StoredModel {
 public:
  CheckpointModel(FileSystem& files, std::unique_ptr<const Found> found)
      : StoredModel(found->path, list(found->manifest)),
        files_(files),
        found_(std::move(found)),
        shards_(found_->manifest.files.size()) {}

  void read(const Tensor& tensor, std::span<std::byte> into) override {
    const StoredTensor& stored = stored_of(found_->manifest, tensor.name);
    std::vector<std::byte> part;
    for (const Slice& slice : stored.slices) {
      ShardReader& shard = shard_of(slice.file);
      const TensorInfo* info = shard.header().find(stored.name);
      if (info == nullptr || info->dtype != stored.dtype || info->shape != slice.box.extent)
        throw UserError(ExitCode::no_checkpoint,
                        format("{}: has not the part of {} that its manifest promises",
                               shard.path(), tensor.name));
      part.resize(static_cast<std::size_t>(info->size_bytes()));
      shard.read(info->begin, part);
      copy_box(slice.box, slice.box, part, whole_box(stored.shape), into,
               fourfold::size_bytes(stored.dtype));
    }
  }

 private:
  /// Where a parameter is averaged, its average is what is used.
  static const StoredTensor& stored_of(const Manifest& manifest, const std::string& name) {
    const StoredTensor* average = manifest.find("average/" + name);
    return average != nullptr ? *average : *manifest.find(name);
  }
  static std::vector<Tensor> list(const Manifest& manifest) {
    std::vector<Tensor> tensors;
    for (const StoredTensor& tensor : manifest.tensors)
      if (is_parameter(tensor)) tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    return tensors;
  }
  ShardReader& shard_of(std::size_t file) {
    auto& shard = shards_[file];
    if (!shard)
      shard = std::make_unique<ShardReader>(files_, found_->path, found_->manifest.files[file]);
    return *shard;
  }

  FileSystem& files_;
  std::unique_ptr<const Found> found_;
  std::vector<std::unique_ptr<ShardReader>> shards_;
};

}  // namespace

std::int64_t StoredModel::Tensor::size_bytes() const {
  return shape.elements() * checkpoint::size_bytes(dtype);
}

StoredModel::StoredModel(std::string path, std::vector<Tensor> tensors)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), by_name);
}

const StoredModel::Tensor* StoredModel::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const Tensor& t, std::string_view wanted) { return t.name < wanted; });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

std::vector<std::byte> StoredModel::read(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  read(tensor, bytes);
  return bytes;
}

std::unique_ptr<StoredModel> open_model_files(const std::string& path,
                                              std::span<const std::string> files) {
  std::vector<SafetensorsFile> open;
  for (const std::string& file : files) open.push_back(SafetensorsFile::open(file));
  return std::make_unique<ModelFiles>(path, std::move(open));
}

std::unique_ptr<StoredModel> open_model_file(const std::string& path) {
  return open_model_files(path, std::span(&path, 1));
}

std::unique_ptr<StoredModel> open_model_in(FileSystem& files, Found found) {
  return std::make_unique<CheckpointModel>(files, std::make_unique<const Found>(std::move(found)));
}

}  // namespace fourfold::checkpoint
