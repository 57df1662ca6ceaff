#include "tokenizer/pattern.h"

namespace fourfold::tokenizer {

std::variant<std::unique_ptr<Pattern>, std::string> make_pattern(
    const std::string& /*expression*/) {
  return "this build has no PCRE2: install libpcre2-dev (scripts/setup) and build again";
}

}  // namespace fourfold::tokenizer
