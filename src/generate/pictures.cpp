#include "generate/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "generate/numbers.h"

namespace fourfold::generate {
namespace {

constexpr op::ProgramKind denoise = op::ProgramKind::denoise;

/// Feeds the classes of some pictures.
class LabelFeeder final : public run::Feeder {
 public:
  LabelFeeder(const PictureSpec& spec, std::int64_t first) : spec_(spec), first_(first) {}

  void feed(const Input& input, const run::Samples& /*samples*/,
            std::span<std::byte> into) override {
    require(input.name == "labels", "a program that makes pictures is fed labels alone");
    for (std::size_t i = 0; i < into.size() / sizeof(std::int32_t); ++i) {
      const auto number = first_ + static_cast<std::int64_t>(i);
      const std::int32_t label =
          spec_.label.value_or(static_cast<std::int32_t>(number % spec_.num_labels));
      std::memcpy(into.data() + i * sizeof(label), &label, sizeof(label));
    }
  }

 private:
  const PictureSpec& spec_;
  std::int64_t first_;
};

std::uint8_t byte_of(double value) {
  return static_cast<std::uint8_t>(std::lround(std::clamp((value + 1) / 2 * 255, 0.0, 255.0)));
}

/// What is made of a number of pictures at once.
class Batch {
 public:
  Batch(const PictureSpec& spec, run::Executor& executor)
      : spec_(spec),
        executor_(executor),
        buffer_(buffer_of(executor)),
        random_(spec.seed, random_stream("diffusion.start")) {}

  std::int64_t size() const { return buffer_.global[0]; }
  data::PictureShape shape() const {
    return {buffer_.global[1], buffer_.global[2], buffer_.global[3]};
  }

  /// Makes pictures number `first` and after.
  template <class OnStep>
  std::vector<double> make(std::int64_t first, OnStep&& on_step) {
    begin(first);
    LabelFeeder feeder(spec_, first);
    op::StepBlock step;
    step.seed = spec_.seed;
    step.first_sample = first;
    for (std::int64_t index = spec_.steps; index-- > 0;) {
      step.index = static_cast<std::int32_t>(index);
      executor_.run(denoise, step, &feeder);
      on_step();
    }
    const HostView<const std::byte> bytes = executor_.read(buffer_);
    return numbers_of({bytes.data(), bytes.size()}, buffer_.dtype);
  }

 private:
  static const program::Buffer& buffer_of(const run::Executor& executor) {
    const program::Program& program = executor.bundle().at(denoise);
    const auto id = program.find_buffer("denoised");
    require(id.has_value() && program.buffer(*id).global.rank() == 4,
            "a program that makes pictures has a buffer of them");
    return program.buffer(*id);
  }

  void begin(std::int64_t first) {
    std::vector<double> noise(static_cast<std::size_t>(buffer_.global.elements()));
    const auto begin = static_cast<std::uint64_t>(first * shape().size_bytes());
    for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = random_.normal(begin + i, 0);
    const HostView<std::byte> bytes = executor_.bytes(buffer_);
    store_numbers(noise, buffer_.dtype, {bytes.data(), bytes.size()});
  }

  const PictureSpec& spec_;
  run::Executor& executor_;
  const program::Buffer& buffer_;
  Random random_;
};

}  // namespace

Pictures make_pictures(const PictureSpec& spec, run::Executor& executor, const OnDone& on_done) {
  Batch batch(spec, executor);
  Pictures pictures{batch.shape(), {}};
  const auto size = static_cast<std::size_t>(pictures.shape.size_bytes());
  const std::int64_t batches = (spec.count + batch.size() - 1) / batch.size();
  std::int64_t steps_done = 0;
  for (std::int64_t first = 0; first < spec.count; first += batch.size()) {
    const std::vector<double> values = batch.make(first, [&] {
      ++steps_done;
      if (on_done)
        on_done(static_cast<double>(steps_done) / static_cast<double>(batches * spec.steps));
    });
    const std::int64_t wanted = std::min(batch.size(), spec.count - first);
    for (std::int64_t i = 0; i < wanted; ++i) {
      const std::span<const double> own =
          std::span(values).subspan(static_cast<std::size_t>(i) * size, size);
      if (!std::ranges::all_of(own, [](double value) { return std::isfinite(value); }))
        throw UserError(ExitCode::numeric_stop,
                        format("picture {} has values that are no numbers; the weights are bad, "
                               "choose an earlier checkpoint with --step",
                               first + i + 1));
      std::vector<std::uint8_t>& bytes = pictures.bytes.emplace_back();
      std::ranges::transform(own, std::back_inserter(bytes), byte_of);
    }
  }
  return pictures;
}

std::vector<std::uint8_t> on_one_sheet(const Pictures& pictures, std::int64_t columns,
                                       data::PictureShape& shape) {
  const data::PictureShape& one = pictures.shape;
  const auto count = static_cast<std::int64_t>(pictures.bytes.size());
  const std::int64_t rows = (count + columns - 1) / columns;
  shape = {rows * (one.height + 1) - 1, columns * (one.width + 1) - 1, one.channels};
  std::vector<std::uint8_t> sheet(static_cast<std::size_t>(shape.size_bytes()), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / columns * (one.height + 1), left = i % columns * (one.width + 1);
    for (std::int64_t row = 0; row < one.height; ++row)
      std::copy_n(
          pictures.bytes[static_cast<std::size_t>(i)].begin() + row * one.width * one.channels,
          one.width * one.channels,
          sheet.begin() + ((top + row) * shape.width + left) * one.channels);
  }
  return sheet;
}

}  // namespace fourfold::generate
