#include "data/picture_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "data/compare_sets.h"
#include "data/permutation.h"

namespace fourfold::data {
namespace {

enum InputPlace : std::size_t { pictures, labels };

std::vector<Input> inputs_of(const PictureShape& shape) {
  return {{"pictures", DType::u8, {shape.height, shape.width, shape.channels}},
          {"labels", DType::i32, {}}};
}

std::unique_ptr<const PictureSet> open_set(const DataSpec& spec, const std::string& path) {
  const FormatRow& row = row_of(spec.format);
  require(row.open_pictures != nullptr, "a model of pictures is fed a format that has some");
  return row.open_pictures(spec, path);
}

std::unique_ptr<const PictureSet> open_validation(const DataSpec& spec) {
  return spec.validation.empty() ? nullptr : open_set(spec, spec.validation);
}

void check_alike(const PictureSet& train, const PictureSet& validation) {
  const std::string& path = validation.facts().path;
  if (validation.shape() != train.shape())
    throw UserError(
        ExitCode::bad_data,
        format("{}: has pictures of {}, expected {} as {} has; make them of one size, or "
               "name other pictures in data.validation",
               path, validation.shape().text(), train.shape().text(), train.facts().path));
  if (validation.num_classes() > train.num_classes())
    throw UserError(
        ExitCode::bad_data,
        format("{}: has {} classes, {} only {}; a class that is never learned cannot "
               "be validated: leave the others out, or name other pictures in data.validation",
               path, validation.num_classes(), train.facts().path, train.num_classes()));
  const auto& names = train.facts().class_names;
  const auto& others = validation.facts().class_names;
  for (std::size_t i = 0; i < std::min(names.size(), others.size()); ++i)
    if (names[i] != others[i])
      throw UserError(ExitCode::bad_data,
                      format("{}: its class {} is '{}', that of {} is '{}'; both need the same "
                             "folders",
                             path, i, others[i], train.facts().path, names[i]));
}

void mirror(std::span<std::uint8_t> picture, const PictureShape& shape) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto row_bytes = static_cast<std::size_t>(shape.width) * channels;
  for (std::size_t row = 0; row < picture.size(); row += row_bytes) {
    std::size_t left = row, right = row + row_bytes - channels;
    for (; left < right; left += channels, right -= channels)
      std::swap_ranges(picture.begin() + static_cast<std::ptrdiff_t>(left),
                       picture.begin() + static_cast<std::ptrdiff_t>(left + channels),
                       picture.begin() + static_cast<std::ptrdiff_t>(right));
  }
}

std::span<std::uint8_t> as_pixels(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

void add_warnings(const PictureSet& set, std::vector<std::string>& warnings) {
  const PictureFacts& facts = set.facts();
  if (facts.passed_over.count > 0)
    warnings.push_back(format("{}: {}", facts.path, facts.passed_over.text("name", "passed over")));
  if (facts.left_out.count > 0)
    warnings.push_back(
        format("{}: {}", facts.path, facts.left_out.text("bad picture", "left out")));
}

/// "test_batch.bin", "a.bin and 2 more": files of the folder that no key of the configuration
/// names.
std::string other_sets(const PictureSet& train, const PictureSet* validation) {
  std::vector<std::string> named;
  if (validation != nullptr) named = validation->files();
  std::vector<std::string> others = train.facts().other_files;
  std::erase_if(others, [&](const std::string& name) {
    return std::ranges::find(named, join_path(train.facts().path, name)) != named.end();
  });
  if (others.size() < 2) return others.empty() ? std::string() : others.front();
  return format("{} and {} more", others.front(), others.size() - 1);
}

}  // namespace

PictureSource::PictureSource(const DataSpec& spec)
    : PictureSource(spec, open_set(spec, spec.path), open_validation(spec)) {}

PictureSource::PictureSource(const DataSpec& spec, std::unique_ptr<const PictureSet> train,
                             std::unique_ptr<const PictureSet> validation)
    : Source({"pictures", "pic"}, inputs_of(train->shape())),
      train_(std::move(train)),
      validation_(std::move(validation)),
      num_train_(train_->num_pictures()),
      samples_per_step_(spec.samples_per_step),
      flip_(spec.flip),
      order_(spec.seed, random_stream("data.epoch.0")),
      flips_(spec.seed, random_stream("data.flip")) {
  if (validation_)
    check_alike(*train_, *validation_);
  else
    num_train_ = static_cast<std::int64_t>(std::clamp(spec.split, 0.0, 1.0) *
                                           static_cast<double>(train_->num_pictures()));
  if (num_validation() < 1)
    throw UserError(ExitCode::bad_data,
                    format("{}: data.split = {} leaves no picture of {} for validation; use more "
                           "pictures, a smaller data.split, or data.validation",
                           name(), spec.split, format_grouped(train_->num_pictures())));
  if (num_train_ < std::max<std::int64_t>(1, samples_per_step_))
    throw UserError(
        ExitCode::bad_data,
        format("{}: has {} for training, expected the {} of a step; use more pictures, "
               "or a smaller train.global_batch_size",
               name(), counted(num_train_, "picture"), format_grouped(samples_per_step_)));
}

std::string PictureSource::validation_name() const {
  return validation_ ? validation_->facts().path : std::string();
}

std::int64_t PictureSource::num_validation() const {
  return validation_ ? validation_->num_pictures() : train_->num_pictures() - num_train_;
}

std::string PictureSource::fingerprint() const {
  return validation_ ? train_->fingerprint() + "; " + validation_->fingerprint()
                     : train_->fingerprint();
}

std::string PictureSource::read_as() const {
  std::string kinds = train_->facts().kind;
  if (validation_ && validation_->facts().kind != kinds)
    kinds += "; to validate " + validation_->facts().kind;
  if (const std::string others = other_sets(*train_, validation_.get()); !others.empty())
    kinds += format("; without {}, another set, which data.validation may name", others);
  return kinds;
}

std::vector<std::string> PictureSource::warnings() const {
  std::vector<std::string> list;
  add_warnings(*train_, list);
  if (!validation_) return list;
  // Where both are one folder it is told once.
  if (validation_->facts().path != train_->facts().path) add_warnings(*validation_, list);
  const std::string common = note_on_common_files(
      {"data.path", train_->files()}, {"data.validation", validation_->files()}, then_validates);
  if (!common.empty()) list.push_back(common);
  return list;
}

std::int64_t PictureSource::in_fixed_order(std::int64_t index) const {
  if (validation_) return index;
  const Random fixed(0, random_stream("data.split"));  // the same for every seed
  const auto all = static_cast<std::uint64_t>(train_->num_pictures());
  return static_cast<std::int64_t>(Permutation(all, fixed, 0)(static_cast<std::uint64_t>(index)));
}

void PictureSource::fill(std::size_t input, const PictureSet& set, std::int64_t picture,
                         std::span<std::byte> into) const {
  if (input == pictures) return set.read(picture, as_pixels(into));
  const std::int32_t label = set.label(picture);
  const auto bytes = std::as_bytes(std::span(&label, 1));
  std::copy(bytes.begin(), bytes.end(), into.begin());
}

void PictureSource::fill_train(std::size_t input, std::int64_t step, std::int64_t sample,
                               std::span<std::byte> into) const {
  require(step >= 0 && std::in_range<std::uint32_t>(step), "a step counts from 0 and fits 32 bits");
  require(sample >= 0 && sample < samples_per_step_, "a sample is one of its step's");
  const std::int64_t number = step * samples_per_step_ + sample;
  const auto epoch = static_cast<std::uint32_t>(number / num_train_);
  const Permutation permutation(static_cast<std::uint64_t>(num_train_), order_, epoch);
  const auto place = permutation(static_cast<std::uint64_t>(number % num_train_));
  fill(input, *train_, in_fixed_order(static_cast<std::int64_t>(place)), into);
  const bool is_flipped = flip_ && flips_.below(2, static_cast<std::uint64_t>(sample),
                                                static_cast<std::uint32_t>(step)) == 1;
  if (input == pictures && is_flipped) mirror(as_pixels(into), train_->shape());
}

void PictureSource::fill_validation(std::size_t input, std::int64_t sample,
                                    std::span<std::byte> into) const {
  require(sample >= 0, "a sample counts from 0");
  if (sample < num_validation()) {
    const PictureSet& set = validation_ ? *validation_ : *train_;
    return fill(input, set, validation_ ? sample : in_fixed_order(num_train_ + sample), into);
  }
  // What fills up a batch: black, with a label that does not count.
  std::fill(into.begin(), into.end(), input == pictures ? std::byte{0} : std::byte{0xFF});
  static_assert(no_label == -1);
}

}  // namespace fourfold::data
