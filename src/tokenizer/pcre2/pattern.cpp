#include "tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/format.h"

namespace fourfold::tokenizer {
namespace {

using Kind = Pattern::Found::Kind;

/// A handle of the library that one function frees.
template <class T, void (*free_it)(T*)>
struct Freed {
  void operator()(T* handle) const { free_it(handle); }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code, pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context, pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context,
                                       Freed<pcre2_compile_context, pcre2_compile_context_free>>;

/// An expression that a tokenizer has is some hundred characters long.
constexpr std::size_t most_expression_bytes = std::size_t{1} << 16;

/// Where the place of a match is written, one for each thread.
pcre2_match_data* match_data() {
  thread_local const MatchData data(pcre2_match_data_create(1, nullptr));
  return data.get();
}

class Pcre2Pattern final : public Pattern {
 public:
  explicit Pcre2Pattern(Code code)
      : code_(std::move(code)), context_(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(context_.get(), most_steps);
    const auto modes = PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD;
    is_compiled_ = pcre2_jit_compile(code_.get(), modes) == 0;
    std::uint32_t looked_back = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MAXLOOKBEHIND, &looked_back);
    looks_back_ = looked_back > 0;
  }

  Found find(std::string_view text, std::size_t from) const override {
    return search(text, from, 0);
  }
  Found find_whatever_follows(std::string_view text, std::size_t from) const override {
    return search(text, from, PCRE2_PARTIAL_HARD);
  }
  bool looks_back() const override { return looks_back_; }

 private:
  Found search(std::string_view text, std::size_t from, std::uint32_t options) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    pcre2_match_data* data = match_data();
    const std::uint32_t checked = options | PCRE2_NO_UTF_CHECK;
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (is_compiled_)
      result =
          pcre2_jit_match(code_.get(), subject, text.size(), from, options, data, context_.get());
    // The stack of compiled code is small; without it the steps are the only limit.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
      result = pcre2_match(code_.get(), subject, text.size(), from, checked | PCRE2_NO_JIT, data,
                           context_.get());
    if (result == PCRE2_ERROR_NOMATCH) return {Kind::none, 0, 0};
    if (result == PCRE2_ERROR_PARTIAL) return {Kind::open, 0, 0};
    if (result < 0) return {Kind::too_long, from, from};
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data);
    return {Kind::match, place[0], place[1]};
  }

  Code code_;
  MatchContext context_;
  bool is_compiled_ = false, looks_back_ = true;
};

}  // namespace

std::variant<std::unique_ptr<Pattern>, std::string> make_pattern(const std::string& expression) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), most_expression_bytes);
  int error = 0;
  PCRE2_SIZE place = 0;
  // As in Oniguruma, ^ and $ stand for the borders of lines.
  constexpr std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                          options, &error, &place, context.get()));
  if (code) return std::make_unique<Pcre2Pattern>(std::move(code));
  char words[256] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(words), sizeof words);
  return format("PCRE2 refuses it at byte {}: {}", place, words);
}

}  // namespace fourfold::tokenizer
