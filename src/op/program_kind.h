// The programs that a bundle may have, as a type: what each is for. A graph has the kind of the
// program that it becomes. Not what is in one (program/), nor which of them a model has (model/).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold::op {

enum class ProgramKind : std::uint8_t {
  init,      // gives all state its start
  train,     // one step: forward, backward and update
  evaluate,  // the loss of samples that nothing is learned from
  bound,     // a term of the bound on the bits of pictures, of a model of diffusion
  prefill,   // reads a text into the key/value cache
  decode,    // reads one more token
  denoise,   // makes one step from noise to pictures
  digest     // looks at all state
};
inline constexpr std::array all_program_kinds = {
    ProgramKind::init,    ProgramKind::train,  ProgramKind::evaluate, ProgramKind::bound,
    ProgramKind::prefill, ProgramKind::decode, ProgramKind::denoise,  ProgramKind::digest};

/// The word of a kind in program texts, traces and command lines: "train".
std::string_view to_string(ProgramKind kind);
/// The kind with that word; none where no kind has it.
std::optional<ProgramKind> parse_program_kind(std::string_view word);
/// All words, for messages: "init, train, evaluate, ...".
std::string list_program_kinds();

/// True for the programs that start all state or look at it, and compute nothing of the model.
constexpr bool is_of_state(ProgramKind kind) {
  return kind == ProgramKind::init || kind == ProgramKind::digest;
}

}  // namespace fourfold::op
