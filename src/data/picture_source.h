// Pictures and their labels as samples of a run: which of them train and which validate, in which
// order, and which are turned over. Not where they lie (picture_set.h), and not how bytes become
// numbers: that is in the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/picture_set.h"
#include "data/source.h"

namespace fourfold::data {

/// Inputs: "pictures", bytes of (height, width, channels), and "labels", a number each.
///
/// The first part of a fixed random order of one set trains and the rest validates (spec.split);
/// with a set of its own for validation all of the first one trains. An epoch of training shows
/// each picture once, in a random order without a table; with spec.flip each sample is mirrored,
/// left to right, with probability 1/2. Both are pure functions of (seed, step, sample).
class PictureSource final : public Source {
 public:
  /// Errors: those of open_pictures, and UserError(bad_data) for sets that do not fit each other,
  /// or are too small for a step.
  explicit PictureSource(const DataSpec& spec);

  std::string name() const override { return train_->facts().path; }
  std::string validation_name() const override;
  std::int64_t num_train() const override { return num_train_; }
  std::int64_t num_validation() const override;
  std::int64_t num_labels() const override { return train_->num_classes(); }
  std::string fingerprint() const override;
  std::string read_as() const override;
  std::vector<std::string> warnings() const override;

  void fill_train(std::size_t input, std::int64_t step, std::int64_t sample,
                  std::span<std::byte> into) const override;
  std::int64_t validation_samples() const override { return num_validation(); }
  void fill_validation(std::size_t input, std::int64_t sample,
                       std::span<std::byte> into) const override;

 private:
  PictureSource(const DataSpec& spec, std::unique_ptr<const PictureSet> train,
                std::unique_ptr<const PictureSet> validation);

  void fill(std::size_t input, const PictureSet& set, std::int64_t picture,
            std::span<std::byte> into) const;
  /// Place `index` of the fixed random order of all pictures of the first set.
  std::int64_t in_fixed_order(std::int64_t index) const;

  std::unique_ptr<const PictureSet> train_, validation_;  // the latter null: a part of the former
  std::int64_t num_train_ = 0, samples_per_step_ = 0;
  bool flip_ = false;
  Random order_, flips_;
};

}  // namespace fourfold::data
