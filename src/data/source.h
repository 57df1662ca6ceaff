// Where samples come from: what the trainer, the screens and the checkpoints of a run know of its
// data. Not what a model makes of them, and not a loader with state: there is nothing to save or
// resume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/input.h"
#include "base/units.h"
#include "data/data_spec.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {

/// The label of what has none: its loss does not count.
inline constexpr std::int32_t no_label = -1;

/// Samples for training and for validation, each a pure function of what the functions are given
/// and of the seed. For several threads at once.
///
/// Errors of the functions that fill: UserError(bad_data), with the place, for data that cannot be
/// read or are not what they were when the source was opened.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// What it can fill: a model declares some of these.
  const std::vector<Input>& inputs() const { return inputs_; }
  /// The place of an input among them. Requires that the source has just this one: a model and its
  /// data are made for each other.
  std::size_t place_of(const Input& input) const;

  /// What is counted wherever labels are.
  const CountUnit& unit() const { return unit_; }
  /// "a.bin", "a.bin and 2 more": for messages.
  virtual std::string name() const = 0;
  /// The name of what validates and does not train; empty where there is nothing of the kind.
  virtual std::string validation_name() const = 0;
  /// In units.
  virtual std::int64_t num_train() const = 0;
  virtual std::int64_t num_validation() const = 0;
  /// Labels are from 0 to this, exclusive.
  virtual std::int64_t num_labels() const = 0;
  /// "4,236,031 tokens 0123456789abcdef": their number and a hash of what they are; then, after a
  /// semicolon, those of what validates alone.
  virtual std::string fingerprint() const = 0;
  /// "2 files of text, a document each": what files were taken for by what they hold; empty where
  /// nothing of the kind had to be found out.
  virtual std::string read_as() const { return {}; }
  /// What people should know of the data before they train on them.
  virtual std::vector<std::string> warnings() const { return {}; }
  /// What made the integers of a text, and null where the data are no text.
  virtual const tokenizer::Tokenizer* tokenizer() const { return nullptr; }
  /// The text of the first token that trains; empty where the data are no text.
  virtual std::string beginning() const { return {}; }

  /// Fills one input of a sample; sample and step count from 0, and `into` has the input's bytes,
  /// aligned for its elements.
  virtual void fill_train(std::size_t input, std::int64_t step, std::int64_t sample,
                          std::span<std::byte> into) const = 0;
  /// How many samples hold all that validates, each part of it once.
  virtual std::int64_t validation_samples() const = 0;
  /// As fill_train. Samples from validation_samples() on have no labels.
  virtual void fill_validation(std::size_t input, std::int64_t sample,
                               std::span<std::byte> into) const = 0;

 protected:
  Source(const CountUnit& unit, std::vector<Input> inputs)
      : unit_(unit), inputs_(std::move(inputs)) {}

 private:
  CountUnit unit_;
  std::vector<Input> inputs_;
};

/// Opens the data of a run. Errors: UserError(bad_data) where they are missing, damaged or too few
/// for one step.
std::unique_ptr<const Source> open_source(const DataSpec& spec);

}  // namespace fourfold::data
