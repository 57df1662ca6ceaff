#include "data/verify_data.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "data/megatron_set.h"
#include "data/picture_set.h"
#include "data/verify_set.h"

namespace fourfold::data {
namespace {

std::string verify_pictures(const std::string& path) {
  const auto set = open_pictures(path);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set->shape().size_bytes()));
  for (std::int64_t picture = 0; picture < set->num_pictures(); ++picture)
    set->read(picture, bytes);
  return format("{}: {} of {}, no faults; labels 0 to {}\n", path,
                counted(set->num_pictures(), "picture"), set->shape().text(),
                set->num_classes() - 1);
}

std::string verify_tokens(const std::string& path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  if (is_file && megatron_prefix(path) == path)
    throw UserError(ExitCode::bad_data,
                    format("{} is no set of tokens or pictures; name the prefix of a set, such as "
                           "`fourfold data tokenize` makes of a text",
                           path));
  const VerifiedSet set = verify_set(path);
  std::string text =
      format("{}: {}, {}, the largest is {}", path, counted(set.documents, "document"),
             counted(set.tokens, "token"), set.largest_id);
  if (set.has_sidecar)
    text += format(" of {}; hashes agree", format_grouped(*set.vocab_size));
  else
    text += "; there is no .json beside it, so neither vocabulary nor hashes are known";
  return text + "\n";
}

}  // namespace

std::string verify_data(const std::string& path) {
  const bool is_tokens = file_exists(megatron_prefix(path) + ".idx");
  return !is_tokens && is_picture_set(path) ? verify_pictures(path) : verify_tokens(path);
}

}  // namespace fourfold::data
