#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "data/megatron_set.h"
#include "data/picture_set.h"
#include "data/verify_set.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

void verify_pictures(const std::string& path) {
  const auto set = data::open_pictures(path);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set->shape().size_bytes()));
  for (std::int64_t picture = 0; picture < set->num_pictures(); ++picture)
    set->read(picture, bytes);
  screen::print("%s: %s of %s, no faults; labels 0 to %lld\n", path.c_str(),
                counted(set->num_pictures(), "picture").c_str(), set->shape().text().c_str(),
                static_cast<long long>(set->num_classes() - 1));
}

void verify_tokens(const std::string& path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  if (is_file && data::megatron_prefix(path) == path)
    throw UserError(ExitCode::bad_data,
                    format("{} is no set of tokens or pictures; name the prefix of a set, such as "
                           "`fourfold data tokenize` makes of a text",
                           path));
  const data::VerifiedSet set = data::verify_set(path);
  std::string text =
      format("{}: {}, {}, the largest is {}", path, counted(set.documents, "document"),
             counted(set.tokens, "token"), set.largest_id);
  if (set.has_sidecar)
    text += format(" of {}; hashes agree", format_grouped(*set.vocab_size));
  else
    text += "; there is no .json beside it, so neither vocabulary nor hashes are known";
  screen::print("%s\n", text.c_str());
}

}  // namespace

void data_verify(const std::string& path) {
  const bool is_tokens = file_exists(data::megatron_prefix(path) + ".idx");
  if (!is_tokens && data::is_picture_set(path))
    verify_pictures(path);
  else
    verify_tokens(path);
}

}  // namespace fourfold::cli
