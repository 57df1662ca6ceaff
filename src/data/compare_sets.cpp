#include "data/compare_sets.h"

#include <optional>

#include "base/format.h"
#include "base/units.h"
#include "data/known_files.h"
#include "data/left_out.h"

namespace fourfold::data {
namespace {

/// Calls `visit` with each file of `second` that `first` has too, and with its path there.
template <class Visit>
void for_each_common(const SetFiles& first, const SetFiles& second, Visit visit) {
  KnownFiles known;
  for (const std::string& path : first.files) known.add(path);
  for (const std::string& path : second.files)
    if (const auto same = known.find(path)) visit(path, same->path);
}

}  // namespace

std::vector<std::string> notes_on_common_files(const SetFiles& first, const SetFiles& second,
                                               const std::string& then) {
  std::vector<std::string> notes;
  std::int64_t more = 0;
  for_each_common(first, second, [&](const std::string& path, const std::string& same) {
    if (notes.size() == LeftOut::most_named)
      ++more;
    else
      notes.push_back(format("{} of {} is {} of {}: {}", path, second.key,
                             same == path ? std::string("also a file") : "the same as " + same,
                             first.key, then));
  });
  if (more > 0)
    notes.push_back(
        format("so {} {} of {}", more == 1 ? "is" : "are", counted(more, "more file"), second.key));
  return notes;
}

std::string note_on_common_files(const SetFiles& first, const SetFiles& second,
                                 const std::string& then) {
  LeftOut common;
  for_each_common(first, second, [&](const std::string& path, const std::string& same) {
    common.add(path, same == path ? "is in both" : "is the same as " + same);
  });
  if (common.count == 0) return {};
  return format("{}: {}", common.text("file", format("of {} in {} too", second.key, first.key)),
                then);
}

}  // namespace fourfold::data
