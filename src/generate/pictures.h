// Makes pictures out of noise with a trained model of diffusion, by the program "denoise" of its
// bundle. Not files of pictures (data/png.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/picture_shape.h"
#include "run/executor.h"

namespace fourfold::generate {

struct PictureSpec {
  std::int64_t count = 1;  // pictures number 0 ... count - 1
  std::int64_t steps = 1;  // of the program
  std::uint64_t seed = 1;
  /// The class of all pictures; none: picture n has class n mod num_labels. A model that is not
  /// told classes asks for none.
  std::optional<std::int32_t> label;
  std::int64_t num_labels = 1;
};

struct Pictures {
  data::PictureShape shape;
  std::vector<std::vector<std::uint8_t>> bytes;  // of each picture, in the shape's order
};

/// Called after each step with the part that is done, from 0 to 1.
using OnDone = std::function<void(double)>;

/// A picture is a pure function of the weights, the seed and its number, however many others are
/// made with it. Element i of picture n begins as Random(seed, "diffusion.start").normal(n size +
/// i, 0). Values from -1 to 1 become bytes, the nearest one each.
/// Program: step.index counts from steps - 1 to 0, step.first_sample is the number of the first
/// picture, step.seed the seed; fed are labels (B) where it asks for them; it changes the buffer
/// "denoised" (B, H, W, C). Errors: UserError(numeric_stop) for values that are no numbers.
Pictures make_pictures(const PictureSpec& spec, run::Executor& executor,
                       const OnDone& on_done = {});

/// All pictures on one, row by row, `columns` beside each other, with a gap of one dark pixel
/// between them.
std::vector<std::uint8_t> on_one_sheet(const Pictures& pictures, std::int64_t columns,
                                       data::PictureShape& shape);

}  // namespace fourfold::generate
