#include "data/describe.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "base/units.h"
#include "data/picture_set.h"
#include "data/picture_statistics.h"
#include "data/thumbnails.h"

namespace fourfold::data {
namespace {

constexpr std::int64_t shown_pictures = 6, shown_classes = 40;

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(format("{:.4f}", value));
  return join(texts, ", ");
}

/// A line for each bad picture whose name is known; nothing where all pictures are good.
std::string left_out_text(const LeftOut& left_out) {
  if (left_out.count == 0) return {};
  std::string text = format("left out: {}\n", counted(left_out.count, "bad picture"));
  for (const std::string& picture : left_out.first) text += format("  {}\n", picture);
  const std::int64_t more = left_out.count - std::ssize(left_out.first);
  if (more > 0) text += format("  and {} more\n", format_grouped(more));
  return text;
}

Rows rows_of(const PictureSet& set) {
  const PictureFacts& facts = set.facts();
  const PictureStatistics statistics = measure_pictures(set);
  Rows rows = {{"what", facts.kind},
               {"pictures", format("{} of {} (height, width, channels), {}",
                                   format_grouped(set.num_pictures()), set.shape().text(),
                                   format_bytes(set.num_pictures() * set.shape().size_bytes()))},
               {"classes", format_grouped(set.num_classes())},
               {"mean", numbers(statistics.mean) + " of each channel, of values divided by 255"},
               {"deviation", numbers(statistics.deviation)}};
  if (!facts.other_files.empty())
    rows.push_back({"not in it", join(facts.other_files, ", ") + ": another set; name it alone"});
  if (facts.passed_over.count > 0)
    rows.push_back({"note", facts.passed_over.text("name", "passed over")});
  return rows;
}

/// Names of the first classes as they are shown, all of one width; empty where they are not known.
std::vector<std::string> shown_names(const PictureSet& set, std::int64_t shown) {
  constexpr std::size_t most_columns = 20;
  std::vector<std::string> names(static_cast<std::size_t>(shown));
  if (set.facts().class_names.empty()) return names;
  std::size_t columns = 0;
  for (std::size_t label = 0; label < names.size(); ++label) {
    names[label] =
        " " + first_columns(without_controls(set.facts().class_names[label]), most_columns);
    columns = std::max(columns, columns_of(names[label]));
  }
  for (std::string& name : names) name.append(columns - columns_of(name), ' ');
  return names;
}

/// A line a class, with its number, its name and a bar.
std::string histogram(const PictureSet& set) {
  const std::vector<std::int64_t> counts = count_classes(set);
  const auto shown = std::min(std::ssize(counts), shown_classes);
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  const std::vector<std::string> names = shown_names(set, shown);
  std::string text = "pictures by class\n";
  for (std::int64_t label = 0; label < shown; ++label) {
    constexpr std::int64_t columns = 40;
    const std::int64_t count = counts[static_cast<std::size_t>(label)];
    const std::string bar(static_cast<std::size_t>((count * columns + most - 1) / most), '#');
    text += format("  {:>2}{} {:>9}{}{}\n", label, names[static_cast<std::size_t>(label)],
                   format_grouped(count), bar.empty() ? "" : "  ", bar);
  }
  if (shown < std::ssize(counts)) {
    const auto [least, largest] = std::minmax_element(counts.begin() + shown, counts.end());
    text += format("  and {} more, {} to {} pictures each\n",
                   format_grouped(std::ssize(counts) - shown), format_grouped(*least),
                   format_grouped(*largest));
  }
  return text;
}

/// One of each class, in the order in which the classes come first.
std::string first_pictures(const PictureSet& set) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  std::vector<Captioned> thumbnails;
  std::set<std::int32_t> seen;
  for (std::int64_t i = 0; i < set.num_pictures(); ++i) {
    if (std::ssize(seen) == shown_pictures) break;
    if (!seen.insert(set.label(i)).second) continue;
    set.read(i, bytes);
    thumbnails.push_back(
        {format("{}: {}", i, set.class_name(set.label(i))), thumbnail(bytes, set.shape())});
  }
  return "first pictures of classes, by number and class\n\n" + side_by_side(thumbnails);
}

}  // namespace

Description describe_pictures(const std::string& path, BadPictures bad) {
  const auto set = open_pictures(path, bad);
  return {path, rows_of(*set),
          left_out_text(set->facts().left_out) + histogram(*set) + first_pictures(*set)};
}

}  // namespace fourfold::data
