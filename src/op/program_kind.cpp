#include "op/program_kind.h"

#include "base/error.h"

namespace fourfold::op {

std::string_view to_string(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::init:
      return "init";
    case ProgramKind::train:
      return "train";
    case ProgramKind::evaluate:
      return "evaluate";
    case ProgramKind::bound:
      return "bound";
    case ProgramKind::prefill:
      return "prefill";
    case ProgramKind::decode:
      return "decode";
    case ProgramKind::denoise:
      return "denoise";
    case ProgramKind::digest:
      return "digest";
  }
  fail_internal("every kind of program has a word");
}

std::optional<ProgramKind> parse_program_kind(std::string_view word) {
  for (const ProgramKind kind : all_program_kinds)
    if (to_string(kind) == word) return kind;
  return std::nullopt;
}

std::string list_program_kinds() {
  std::string words;
  for (const ProgramKind kind : all_program_kinds) {
    if (!words.empty()) words += ", ";
    words += to_string(kind);
  }
  return words;
}

}  // namespace fourfold::op
