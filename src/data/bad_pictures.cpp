#include "data/bad_pictures.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::data {

std::optional<BadPictures> bad_pictures_of(std::string_view text) {
  if (text == "stop") return BadPictures{};
  constexpr std::string_view skip = "skip:";
  if (!text.starts_with(skip)) return std::nullopt;
  text.remove_prefix(skip.size());
  std::int64_t most = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
  if (error != std::errc() || end != text.data() + text.size() || most < 0) return std::nullopt;
  return BadPictures{most};
}

BadPictureList::BadPictureList(BadPictures policy, std::string set)
    : policy_(policy), set_(std::move(set)) {}

void BadPictureList::add(const std::string& place, const std::string& what,
                         const std::string& advice) {
  if (!policy_.skip) throw UserError(ExitCode::bad_data, format("{}: {}; {}", place, what, advice));
  left_out_.add(place, what);
  if (left_out_.count <= *policy_.skip) return;
  throw UserError(
      ExitCode::bad_data,
      format("{}: has more bad pictures than the {} that may be left out: {}{}; mend or remove "
             "them, or allow more with skip:N",
             set_, format_grouped(*policy_.skip), join(left_out_.first, ", "),
             left_out_.count > std::ssize(left_out_.first) ? ", ..." : ""));
}

}  // namespace fourfold::data
