#include "data/synthetic_pictures.h"

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"

namespace fourfold::data {
namespace {

constexpr std::int64_t fields = 4;  // a side

PictureFacts facts_of(const PictureShape& shape, std::int64_t num_classes) {
  require(!fault_of(shape), "synthetic pictures have a size that a picture may have");
  require(num_classes >= 1, "synthetic pictures have a class");
  PictureFacts facts;
  facts.path = "synthetic pictures";
  facts.kind = "synthetic pictures";
  facts.shape = shape;
  facts.num_classes = num_classes;
  for (std::int64_t i = 0; i < SyntheticPictures::count; ++i)
    facts.labels.push_back(static_cast<std::int32_t>(i % num_classes));
  facts.hash = "0000000000000000";  // they depend on their shape and the classes alone
  return facts;
}

}  // namespace

SyntheticPictures::SyntheticPictures(const PictureShape& shape, std::int64_t num_classes)
    : PictureSet(facts_of(shape, num_classes)) {}

void SyntheticPictures::read(std::int64_t picture, std::span<std::uint8_t> into) const {
  const Random levels(0, random_stream("data.synthetic.pattern")),
      noise(0, random_stream("data.synthetic.noise"));
  const auto of_class = static_cast<std::uint64_t>(label(picture));
  std::size_t at = 0;
  for (std::int64_t y = 0; y < shape().height; ++y)
    for (std::int64_t x = 0; x < shape().width; ++x)
      for (std::int64_t c = 0; c < shape().channels; ++c, ++at) {
        const std::int64_t field =
            y * fields / shape().height * fields + x * fields / shape().width;
        const auto level =
            levels.below(128, of_class, static_cast<std::uint32_t>(field * shape().channels + c));
        const auto word = noise.words(static_cast<std::uint64_t>(picture),
                                      static_cast<std::uint32_t>(at / 16))[at / 4 % 4];
        const std::uint32_t random = word >> (at % 4 * 8) & 127;
        into[at] = static_cast<std::uint8_t>(level + random);
      }
}

std::string SyntheticPictures::place(std::int64_t picture) const {
  return format("synthetic picture {}", picture);
}

}  // namespace fourfold::data
