#include "data/verify_set.h"

#include <cstdio>

#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"

namespace fourfold::cli {

void data_verify(const std::string& path) {
  const data::VerifiedSet set = data::verify_set(path);
  std::string text =
      format("{}: {} documents, {} tokens, the largest is {}", path, format_grouped(set.documents),
             format_grouped(set.tokens), set.largest_id);
  if (set.has_sidecar)
    text += format(" of {}; hashes agree", format_grouped(*set.vocab_size));
  else
    text += "; there is no .json beside it, so neither vocabulary nor hashes are known";
  std::printf("%s\n", text.c_str());
}

}  // namespace fourfold::cli
