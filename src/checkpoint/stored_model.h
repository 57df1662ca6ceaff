// The parameters of a model that was saved, whole, wherever they are: in safetensors files, or in a
// checkpoint of any grid, there the averages of those that are averaged. Not optimizer state.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace fourfold::checkpoint {

class StoredModel {
 public:
  struct Tensor {
    std::string name;
    ElementType dtype = DType::f32;
    Shape shape;
    std::int64_t size_bytes() const;
  };

  virtual ~StoredModel() = default;
  /// For messages.
  const std::string& path() const { return path_; }
  /// Sorted by name, each once.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Null when there is none of that name.
  const Tensor* find(std::string_view name) const;
  /// Fills `into`, of exactly the size of one of tensors(). Errors: UserError(no_checkpoint).
  virtual void read(const Tensor& tensor, std::span<std::byte> into) = 0;
  std::vector<std::byte> read(const Tensor& tensor);

 protected:
  StoredModel(std::string path, std::vector<Tensor> tensors);

 private:
  std::string path_;
  std::vector<Tensor> tensors_;
};

/// All tensors of these files; `path` names them together. Errors: UserError(no_checkpoint), also
/// where two files hold a tensor of the same name.
std::unique_ptr<StoredModel> open_model_files(const std::string& path,
                                              std::span<const std::string> files);
/// One file.
std::unique_ptr<StoredModel> open_model_file(const std::string& path);

/// The parameters in a checkpoint. Each byte that is read is checked against its hash. `files` must
/// outlive it.
std::unique_ptr<StoredModel> open_model_in(FileSystem& files, Found found);

}  // namespace fourfold::checkpoint
