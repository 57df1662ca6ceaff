#include "tokenizer/normal_form.h"

#include "base/error.h"

namespace fourfold::tokenizer {

std::string why_no_normal_form() {
  return "this build has no utf8proc: install libutf8proc-dev (scripts/setup) and build again";
}

std::string normal_form_c(std::string_view /*text*/) {
  fail_internal("a text is normalised where utf8proc is");
}

}  // namespace fourfold::tokenizer
