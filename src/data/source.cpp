#include "data/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "data/picture_source.h"
#include "data/token_source.h"

namespace fourfold::data {

std::size_t Source::place_of(const Input& input) const {
  const auto place = std::find(inputs_.begin(), inputs_.end(), input);
  require(place != inputs_.end(), [&] {
    return format("the data have what the model is fed: {} {} of {}", input.name,
                  fourfold::to_string(input.dtype), to_string(input.sample_shape));
  });
  return static_cast<std::size_t>(place - inputs_.begin());
}

std::unique_ptr<const Source> open_source(const DataSpec& spec) {
  if (spec.is_of_pictures) return std::make_unique<PictureSource>(spec);
  return std::make_unique<TokenSource>(spec);
}

}  // namespace fourfold::data
