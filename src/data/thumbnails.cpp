#include "data/thumbnails.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/format.h"
#include "base/styled_text.h"

namespace fourfold::data {
namespace {

constexpr std::string_view shades = " .:-=+*#%@";

/// The brightness of red, green and blue, as the eye sees them (ITU-R BT.709); or of grey.
double brightness(std::span<const std::uint8_t> pixel) {
  if (pixel.size() == 1) return pixel[0];
  return 0.2126 * pixel[0] + 0.7152 * pixel[1] + 0.0722 * pixel[2];
}

/// The mean of one cell of a grid of rows x columns over the picture; at least one pixel.
double mean_of_cell(std::span<const std::uint8_t> bytes, const PictureShape& shape,
                    std::int64_t row, std::int64_t rows, std::int64_t column,
                    std::int64_t columns) {
  const std::int64_t top = row * shape.height / rows, left = column * shape.width / columns;
  const std::int64_t bottom = std::max((row + 1) * shape.height / rows, top + 1);
  const std::int64_t right = std::max((column + 1) * shape.width / columns, left + 1);
  double sum = 0;
  for (std::int64_t y = top; y < bottom; ++y)
    for (std::int64_t x = left; x < right; ++x)
      sum +=
          brightness(bytes.subspan(static_cast<std::size_t>((y * shape.width + x) * shape.channels),
                                   static_cast<std::size_t>(shape.channels)));
  return sum / static_cast<double>((bottom - top) * (right - left));
}

}  // namespace

std::vector<std::string> thumbnail(std::span<const std::uint8_t> bytes, const PictureShape& shape) {
  const std::int64_t columns =
      std::clamp<std::int64_t>(thumbnail_columns * shape.width / shape.height, 1,
                               std::min(thumbnail_columns, 2 * shape.width));
  const std::int64_t rows = std::clamp<std::int64_t>(shape.height * columns / (2 * shape.width), 1,
                                                     thumbnail_columns / 2);
  std::vector<double> means;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      means.push_back(mean_of_cell(bytes, shape, row, rows, column, columns));
  const auto [dark, bright] = std::minmax_element(means.begin(), means.end());
  const double scale =
      static_cast<double>(shades.size() - 1) / std::max(*bright - *dark, 1.);  // of 255
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (i % static_cast<std::size_t>(columns) == 0) lines.emplace_back();
    lines.back() += shades[static_cast<std::size_t>((means[i] - *dark) * scale + 0.5)];
  }
  return lines;
}

std::string side_by_side(const std::vector<Captioned>& pictures) {
  constexpr std::size_t beside = 3, gap = 3;
  constexpr std::size_t width = static_cast<std::size_t>(thumbnail_columns) + gap;
  std::string text;
  for (std::size_t first = 0; first < pictures.size(); first += beside) {
    const auto row = std::span(pictures).subspan(first, std::min(beside, pictures.size() - first));
    if (first > 0) text += '\n';
    std::size_t height = 0;
    for (const Captioned& picture : row) height = std::max(height, picture.lines.size());
    for (std::size_t line = 0; line <= height; ++line) {
      std::string together;
      for (std::size_t i = 0; i < row.size(); ++i) {
        together.resize(i * width, ' ');
        if (line == 0)
          together += first_columns(without_controls(row[i].caption), width - gap);
        else if (line <= row[i].lines.size())
          together += row[i].lines[line - 1];
      }
      together.erase(together.find_last_not_of(' ') + 1);
      text += together + '\n';
    }
  }
  return text;
}

}  // namespace fourfold::data
