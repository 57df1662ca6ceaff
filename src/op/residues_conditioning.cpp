// Residue forms of what a sample's numbers do to its pixels, in the order of conditioning.h.
// Letters as there.
#include "op/conditioning.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// Scale and shift of a channel of a sample, in modulation (B, 2, C).
struct Modulation {
  const ResidueTensor& tensor;
  std::int64_t channels = tensor.shape.back();

  Residue& scale(std::int64_t sample, std::int64_t channel) const {
    return tensor.elements[2 * sample * channels + channel];
  }
  Residue& shift(std::int64_t sample, std::int64_t channel) const {
    return tensor.elements[(2 * sample + 1) * channels + channel];
  }
};

}  // namespace

void TimeEmbedding::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto samples = static_cast<std::int64_t>(all[0].elements.size());
  const std::int64_t half = width / 2;
  for (std::int64_t b = 0; b < samples; ++b) {
    const Residue t = residue_of_integer(static_cast<std::int64_t>(all[0].elements[b]));
    const auto wave = [&](Residue function, std::int64_t i) {
      return residues.hash(function, {t, residue_of(scale), residue_of(max_period),
                                      residue_of_integer(i), residue_of_integer(half)});
    };
    Residue* y = &all[1].elements[b * width];
    for (std::int64_t i = 0; i < half; ++i) {
      y[i] = wave(function_name("time_embedding.cosine"), i);
      y[half + i] = wave(function_name("time_embedding.sine"), i);
    }
    if (width % 2 != 0) y[width - 1] = 0;
  }
}

void ScaleShift::residue_form(const Residues&, ResidueTensors all) const {
  const Modulation modulation{all[1]};
  PixelSizes(all[0].shape).for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    const Residue scaled = multiply(all[0].elements[i], add(1, modulation.scale(b, c)));
    all[2].elements[i] = add(scaled, modulation.shift(b, c));
  });
}

void ScaleShiftGradient::residue_form(const Residues&, ResidueTensors all) const {
  const Modulation modulation{all[0]};
  PixelSizes(all[1].shape).for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    all[2].elements[i] = multiply(all[1].elements[i], add(1, modulation.scale(b, c)));
  });
}

void ScaleShiftSums::residue_form(const Residues&, ResidueTensors all) const {
  const Modulation grads{all[2]};
  for (Residue& grad : all[2].elements) grad = 0;
  PixelSizes(all[0].shape).for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    const Residue y_grad = all[1].elements[i];
    grads.scale(b, c) = add(grads.scale(b, c), multiply(y_grad, all[0].elements[i]));
    grads.shift(b, c) = add(grads.shift(b, c), y_grad);
  });
}

void AddToPixels::residue_form(const Residues&, ResidueTensors all) const {
  const PixelSizes sizes(all[0].shape);
  sizes.for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    all[2].elements[i] = add(all[0].elements[i], all[1].elements[b * sizes.channels + c]);
  });
}

void PixelSums::residue_form(const Residues&, ResidueTensors all) const {
  const PixelSizes sizes(all[0].shape);
  for (Residue& sum : all[1].elements) sum = 0;
  sizes.for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    Residue& sum = all[1].elements[b * sizes.channels + c];
    sum = add(sum, all[0].elements[i]);
  });
}

}  // namespace fourfold::op
