// What each rank of a save tells the one that commits it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"

namespace fourfold::checkpoint {

struct RankReport {
  struct Part {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;  // of the whole tensor
    Box box;
    std::uint64_t digest = 0;  // of this part
    bool operator==(const Part&) const = default;
  };
  std::string error;                  // what went wrong; empty: nothing
  ExitCode code = ExitCode::storage;  // of what went wrong
  StoredFile file;                    // without a name where the rank owns nothing
  std::vector<Part> parts;            // all in that file
  bool is_finite = true;              // every number of these parts
  bool operator==(const RankReport&) const = default;
};

std::string to_text(const RankReport& report);
/// Reads what to_text wrote.
RankReport parse_report(std::string_view text);

/// Adds the rank's file and parts; not finite parts make the manifest so. Errors: UserError naming
/// the rank, with the code and the error that it reports.
void add_report(Manifest& manifest, const RankReport& report, std::size_t rank);

/// Each element of each tensor is in one slice, and each tensor has the digest that is expected of
/// it, if any is. Errors: UserError(storage): what was about to be saved is not the state of one
/// step.
void check_complete(const Manifest& manifest, const std::map<std::string, std::uint64_t>& expected);

}  // namespace fourfold::checkpoint
