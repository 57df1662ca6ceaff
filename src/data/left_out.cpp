#include "data/left_out.h"

#include "base/format.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::data {

void LeftOut::add(std::string_view name, std::string_view why) {
  if (first.size() < most_named) first.push_back(format("{}: {}", name, why));
  ++count;
}

void LeftOut::add(const LeftOut& others) {
  for (const std::string& one : others.first)
    if (first.size() < most_named) first.push_back(one);
  count += others.count;
}

void LeftOut::add_within(std::string_view folder, const LeftOut& others) {
  LeftOut within = others;
  for (std::string& one : within.first) one = format("{}/{}", folder, one);
  add(within);
}

std::string LeftOut::text(std::string_view noun, std::string_view what) const {
  if (count == 0) return {};
  const std::int64_t more = count - std::ssize(first);
  return format("{} {}: {}{}", counted(count, noun), what, join(first, "; "),
                more > 0 ? format("; and {} more", format_grouped(more)) : "");
}

}  // namespace fourfold::data
